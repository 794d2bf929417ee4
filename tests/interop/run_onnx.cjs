// Runs ONNX models by onnxruntime-node, for check_onnx.py.
//
// Usage: node run_onnx.cjs <folder of node_modules>, with a request on standard input:
//   {"model": path, "cases": [{name: {"type", "dims", "data": base64}, ...}, ...]}
// Answers with the outputs of every case in the same form. Ends with 77 without onnxruntime-node.
const path = require('path');

let ort;
try {
  ort = require(path.join(process.argv[2], 'onnxruntime-node'));
} catch (error) {
  console.error(`run_onnx: ${error.message.split('\n')[0]}`);
  process.exit(77);
}
const kArrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  int16: Int16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
};

function toTensor({type, dims, data}) {
  const bytes = Buffer.from(data, 'base64');
  const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  return new ort.Tensor(type, new kArrays[type](copy), dims);
}

function toJson(tensor) {
  const {buffer, byteOffset, byteLength} = tensor.data;
  const data = Buffer.from(buffer, byteOffset, byteLength).toString('base64');
  return {type: tensor.type, dims: tensor.dims, data};
}

async function main() {
  let request = '';
  for await (const part of process.stdin) request += part;
  const {model, cases} = JSON.parse(request);
  const session = await ort.InferenceSession.create(model, {logSeverityLevel: 3});
  const answers = [];
  for (const inputs of cases) {
    const feeds = {};
    for (const [name, tensor] of Object.entries(inputs)) feeds[name] = toTensor(tensor);
    const outputs = await session.run(feeds);
    const answer = {};
    for (const [name, tensor] of Object.entries(outputs)) answer[name] = toJson(tensor);
    answers.push(answer);
  }
  process.stdout.write(JSON.stringify({version: ort.env.versions.node, answers}));
}

main().catch((error) => {
  console.error(`run_onnx: ${error.message}`);
  process.exit(1);
});
