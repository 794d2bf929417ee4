#!/usr/bin/env python3
"""Opens an exported model as a stranger would: with PyTorch alone, none of our code.

Usage: check_export.py <export folder> <cases.safetensors>
The cases file holds, for every batch size B, "B/in/<input>" and "B/out/<output>". Ends with 0 when
the model gives every output to 1e-6 and model.safetensors holds the model's own tensors, with 77
where there is no PyTorch.
"""
import json
import struct
import sys

try:
    import torch
except ImportError as error:
    print(f"check_export: {error}", file=sys.stderr)
    sys.exit(77)

TOLERANCE = 1e-6
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
         "U8": torch.uint8, "BOOL": torch.bool}


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(content[begin:end]), dtype=TYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def check(condition, message):
    if not condition:
        sys.exit("check_export: " + message)


def check_outputs(model, signature, cases):
    largest = 0.0
    sizes = sorted({int(name.split("/")[0]) for name in cases})
    for size in sizes:
        inputs = [cases[f"{size}/in/{entry['name']}"] for entry in signature["inputs"]]
        with torch.no_grad():
            result = model(*inputs)
        outputs = (result,) if isinstance(result, torch.Tensor) else result
        check(len(outputs) == len(signature["outputs"]), "another number of outputs")
        for entry, output in zip(signature["outputs"], outputs):
            expected = cases[f"{size}/out/{entry['name']}"]
            check(str(output.dtype) == "torch." + entry["dtype"], f"{entry['name']}: dtype")
            check([size] + entry["shape"][1:] == list(output.shape) == list(expected.shape),
                  f"{entry['name']}: shape {list(output.shape)} for {size} examples")
            difference = (output.double() - expected.double()).abs().max().item()
            check(difference <= TOLERANCE, f"{entry['name']} is off by {difference}")
            largest = max(largest, difference)
    return sizes, largest


def check_weights(model, path):
    saved = read_safetensors(path)
    own = dict(list(model.named_parameters()) + list(model.named_buffers()))
    check(set(saved) == set(own), f"names {sorted(saved)} are not {sorted(own)}")
    for name, tensor in own.items():
        check(saved[name].dtype == tensor.dtype and torch.equal(saved[name], tensor), name)
    return len(own)


def main():
    folder, cases = sys.argv[1:]
    with open(folder + "/signature.json", encoding="utf-8") as file:
        signature = json.load(file)
    model = torch.jit.load(folder + "/model.pt").eval()
    sizes, largest = check_outputs(model, signature, read_safetensors(cases))
    tensors = check_weights(model, folder + "/model.safetensors")
    print(f"check_export: batches {sizes}: largest difference {largest}; {tensors} tensors equal")


if __name__ == "__main__":
    main()
