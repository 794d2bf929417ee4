#!/usr/bin/env python3
"""Checks exported ONNX models as a stranger would: ONNX's checker, and a run by onnxruntime.

Usage: check_onnx.py [--checker | --each] <folder>...
A folder holds model.onnx, and, unless the checker alone is wanted, cases.safetensors with
"<case>/in/<input>" and "<case>/out/<output>".
Runs Python's onnxruntime (`./dev test` installs it in build/venv/onnxruntime, whose python3 is to start
this), or else onnxruntime-node, which is looked for in $TROUPE_ONNXRUNTIME
(a folder of node_modules) and build/onnxruntime/node_modules:
    npm install --ignore-scripts --prefix build/onnxruntime onnxruntime-node
With --each it goes on after a folder that differs: a line for each, "<folder>: equal" or how it differs.
Ends with 0 when all that was run agrees to 1e-5, and says what was skipped; with 77 when neither
the checker nor a runtime is here.
"""
import base64
import json
import os
import pathlib
import struct
import subprocess
import sys

try:
    import numpy
except ImportError as error:
    print(f"check_onnx: {error}", file=sys.stderr)
    sys.exit(77)

TOLERANCE = 1e-5  # absolute plus relative
HERE = pathlib.Path(__file__).resolve().parent
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32",
         "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}


def read_cases(path):
    """{case: {"in"|"out": {name: array}}}"""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    cases = {}
    for key, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(content[begin:end], dtype=TYPES[entry["dtype"]])
        case, way, name = key.split("/", 2)
        cases.setdefault(case, {"in": {}, "out": {}})[way][name] = values.reshape(entry["shape"])
    return cases


class PythonRuntime:
    def __init__(self):
        import onnxruntime
        self.runtime = onnxruntime
        self.name = f"onnxruntime {onnxruntime.__version__}"

    def run(self, model, cases):
        session = self.runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return [dict(zip(names, session.run(None, inputs))) for inputs in cases]


class NodeRuntime:
    def __init__(self):
        places = [os.environ.get("TROUPE_ONNXRUNTIME"),
                  HERE.parents[1] / "build/onnxruntime/node_modules"]
        self.modules = next(place for place in places
                            if place and (pathlib.Path(place) / "onnxruntime-node").is_dir())
        self.name = "onnxruntime-node"

    def run(self, model, cases):
        def encode(array):
            return {"type": str(array.dtype), "dims": list(array.shape),
                    "data": base64.b64encode(numpy.ascontiguousarray(array)).decode()}

        def decode(tensor):
            values = numpy.frombuffer(base64.b64decode(tensor["data"]), dtype=tensor["type"])
            return values.reshape(tensor["dims"])

        request = {"model": str(model),
                   "cases": [{name: encode(array) for name, array in inputs.items()}
                             for inputs in cases]}
        done = subprocess.run(["node", str(HERE / "run_onnx.cjs"), str(self.modules)],
                              input=json.dumps(request), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"check_onnx: {model}: {done.stderr.strip()}")
        answer = json.loads(done.stdout)
        self.name = f"onnxruntime-node {answer['version']}"
        return [{name: decode(tensor) for name, tensor in outputs.items()}
                for outputs in answer["answers"]]


def find_runtime():
    for kind in (PythonRuntime, NodeRuntime):
        try:
            return kind()
        except (ImportError, StopIteration):
            pass
    return None


def find_checker():
    try:
        import onnx
    except ImportError:
        return None
    return onnx


def compare(where, expected, got):
    """The largest difference, as a part of what is allowed."""
    if expected.dtype != got.dtype or expected.shape != got.shape:
        sys.exit(f"check_onnx: {where} is {got.dtype} {list(got.shape)}, "
                 f"not {expected.dtype} {list(expected.shape)}")
    if expected.dtype.kind != "f":
        wrong = numpy.count_nonzero(expected != got)
        if wrong:
            sys.exit(f"check_onnx: {where} differs in {wrong} of {expected.size} values")
        return 0.0
    same = (expected == got) | (numpy.isnan(expected) & numpy.isnan(got))
    with numpy.errstate(invalid="ignore"):
        off = numpy.abs(expected.astype("float64") - got.astype("float64"))
        off = off / (1 + numpy.abs(expected.astype("float64")))
    off = numpy.where(same, 0.0, off)
    largest = float(off.max(initial=0.0))
    if not largest <= TOLERANCE:
        worst = numpy.argmax(off)  # a NaN is the largest
        sys.exit(f"check_onnx: {where} is off by {largest}: {got.flat[worst]}, not {expected.flat[worst]}")
    return largest


def check(folder, checker, runtime):
    """The largest difference of a folder's runs, as a part of what is allowed, and their number."""
    model = folder / "model.onnx"
    if checker is not None:
        checker.checker.check_model(checker.load(str(model)), full_check=True)
    if runtime is None:
        return 0.0, 0
    cases = read_cases(folder / "cases.safetensors")
    outputs = runtime.run(model, [case["in"] for case in cases.values()])
    largest = 0.0
    for (name, case), got in zip(cases.items(), outputs):
        if set(got) != set(case["out"]):
            sys.exit(f"check_onnx: {folder.name}: outputs {sorted(got)}")
        for output, expected in case["out"].items():
            where = f"{folder.name}: case {name}: {output}"
            largest = max(largest, compare(where, expected, got[output]))
    return largest, len(cases)


def main():
    checker_alone, each = sys.argv[1] == "--checker", sys.argv[1] == "--each"
    folders = [pathlib.Path(folder) for folder in sys.argv[1 + (checker_alone or each):]]
    checker, runtime = find_checker(), None if checker_alone else find_runtime()
    if checker is None:
        print("check_onnx: SKIPPED: onnx.checker (Debian: python3-onnx)")
    if runtime is None and not checker_alone:
        print("check_onnx: SKIPPED: a run (pip: onnxruntime, or npm: onnxruntime-node; see this file)")
    if runtime is None and (checker is None or each):
        sys.exit(77)
    if each:
        for folder in folders:
            try:
                check(folder, checker, runtime)
                print(f"{folder.name}: equal")
            except SystemExit as difference:
                print(f"{folder.name}: {difference}")
            except Exception as failure:  # the runtime cannot load it, or not run it
                print(f"{folder.name}: {str(failure).splitlines()[0]}")
        return
    largest, runs = 0.0, 0
    for folder in folders:
        off, count = check(folder, checker, runtime)
        largest, runs = max(largest, off), runs + count
    if checker is not None:
        print(f"check_onnx: {len(folders)} models pass onnx.checker {checker.__version__}")
    if runtime is not None:
        print(f"check_onnx: {len(folders)} models, {runs} runs by {runtime.name}: "
              f"largest difference {largest:.2g}")


if __name__ == "__main__":
    main()
