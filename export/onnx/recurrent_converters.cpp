// Recurrent layers. ONNX has one node per layer, with its own order of gates and the directions in
// a dimension of their own.
//
// Legend: T steps, B examples, D directions, L layers, H hidden values, G gates.
#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

struct Cell {
  const char* op;
  Integers gates;  // which of LibTorch's gates ONNX has first, second, ...
  OnnxAttributes attributes;
};

/// `part` of dimension 0, which is the gates' [G H, ...], with the gates in ONNX's order.
OnnxValue in_order(Conversion& op, const Cell& cell, const OnnxValue& gates) {
  if (cell.gates.size() == 1) return gates;
  const OnnxValues split =
      op.graph.add("Split", {gates}, {{"axis", std::int64_t{0}}}, cell.gates.size());
  OnnxValues ordered;
  for (const std::int64_t gate : cell.gates) {
    ordered.push_back(split[static_cast<std::size_t>(gate)]);
  }
  return op.graph.add("Concat", ordered, {{"axis", std::int64_t{0}}});
}

/// [...] of every direction becomes [D, ...].
OnnxValue with_directions(Conversion& op, const OnnxValues& directions) {
  OnnxValues parts;
  for (const OnnxValue& one : directions) {
    parts.push_back(op.graph.add("Unsqueeze", {one, op.graph.integers({0})}));
  }
  return parts.size() == 1 ? parts.front()
                           : op.graph.add("Concat", parts, {{"axis", std::int64_t{0}}});
}

/// Rows from begin to before end of dimension 0.
OnnxValue rows(Conversion& op, const OnnxValue& value, std::size_t begin, std::size_t end) {
  return op.graph.add(
      "Slice", {value, op.graph.integers({static_cast<std::int64_t>(begin)}),
                op.graph.integers({static_cast<std::int64_t>(end)}), op.graph.integers({0})});
}

/// What one layer's node takes in after its input: weights, recurrent weights, biases.
OnnxValues layer_weights(Conversion& op, const Cell& cell, const OnnxValues& parameters,
                         std::size_t first, std::size_t directions) {
  const bool biased = op.flag("has_biases");
  const std::size_t each = biased ? 4 : 2;
  OnnxValues inputs;
  OnnxValues recurrent;
  OnnxValues biases;
  for (std::size_t d = 0; d < directions; ++d) {
    const std::size_t at = (first + d) * each;
    inputs.push_back(in_order(op, cell, parameters.at(at)));
    recurrent.push_back(in_order(op, cell, parameters.at(at + 1)));
    if (!biased) continue;
    biases.push_back(op.graph.add(
        "Concat",
        {in_order(op, cell, parameters.at(at + 2)), in_order(op, cell, parameters.at(at + 3))},
        {{"axis", std::int64_t{0}}}));
  }
  return {with_directions(op, inputs), with_directions(op, recurrent),
          biased ? with_directions(op, biases) : OnnxValue()};
}

/// `states`: the initial ones, [L D, B, H] each; the final ones are the operator's results after
/// the first.
void convert(Conversion& op, const Cell& cell, const OnnxValues& states) {
  OnnxGraph& graph = op.graph;
  if (op.flag("train") && op.real("dropout") != 0) op.refuse("with dropout in training");
  const bool batch_first = op.flag("batch_first");
  const std::size_t directions = op.flag("bidirectional") ? 2 : 1;
  const auto layers = static_cast<std::size_t>(op.whole("num_layers"));
  const OnnxValues parameters = op.tensors("params");
  const std::size_t each = op.flag("has_biases") ? 4 : 2;
  if (parameters.size() != layers * directions * each) op.refuse("with a projection");
  const Size& hidden = op.result(1).shape.back();
  if (op.tensor("input").shape.size() != 3 || !hidden.is_fixed()) op.refuse("without a batch");
  OnnxAttributes attributes = cell.attributes;
  attributes.push_back({"hidden_size", hidden.fixed()});
  attributes.push_back({"direction", std::string(directions == 2 ? "bidirectional" : "forward")});

  const OnnxAttributes swap = {{"perm", Integers{1, 0, 2}}};
  OnnxValue value = op["input"];
  if (batch_first) value = graph.add("Transpose", {value}, swap);
  std::vector<OnnxValues> ends(states.size());
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t first = layer * directions;
    OnnxValues inputs = layer_weights(op, cell, parameters, first, directions);
    inputs.insert(inputs.begin(), value);
    inputs.emplace_back();  // all sequences have T steps
    for (const OnnxValue& state : states) {
      inputs.push_back(rows(op, state, first, first + directions));
    }
    const OnnxValues outputs = graph.add(cell.op, inputs, attributes, 1 + states.size());
    for (std::size_t i = 0; i < states.size(); ++i) ends[i].push_back(outputs[1 + i]);
    // [T, D, B, H] becomes [T, B, D H].
    const OnnxValue turned = graph.add("Transpose", {outputs[0]}, {{"perm", Integers{0, 2, 1, 3}}});
    const auto width = static_cast<std::int64_t>(directions) * hidden.fixed();
    value = graph.add("Reshape", {turned, graph.integers({0, 0, width})});
  }
  op.give(batch_first ? graph.add("Transpose", {value}, swap) : value, 0);
  for (std::size_t i = 0; i < states.size(); ++i) {
    op.give(
        layers == 1 ? ends[i].front() : graph.add("Concat", ends[i], {{"axis", std::int64_t{0}}}),
        1 + i);
  }
}

/// LibTorch's gates are i f g o, ONNX's i o f g.
void lstm(Conversion& op) { convert(op, {"LSTM", {0, 3, 1, 2}, {}}, op.tensors("hx")); }

/// r z n and z r n; both apply the reset gate after the product with the recurrent weights.
void gru(Conversion& op) {
  const Cell cell = {"GRU", {1, 0, 2}, {{"linear_before_reset", std::int64_t{1}}}};
  convert(op, cell, {op["hx"]});
}

void rnn_tanh(Conversion& op) { convert(op, {"RNN", {0}, {}}, {op["hx"]}); }

}  // namespace

const Converters& recurrent_converters() {
  static const Converters table = {
      {"aten::gru", gru},
      {"aten::lstm", lstm},
      {"aten::rnn_tanh", rnn_tanh},
  };
  return table;
}

}  // namespace troupe::detail
