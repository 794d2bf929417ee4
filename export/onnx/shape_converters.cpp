// Operators that move elements: to another shape, order, type or tensor.
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "troupe/export/onnx/conversion.h"

namespace troupe::detail {
namespace {

void cast(Conversion& op) { op.give(op.as(op.result().element, "self")); }

void same(Conversion& op) { op.give(op[op.has("input") ? "input" : "self"]); }

/// Every operator after which the same elements follow one another: the trace knows the shape.
void reshape(Conversion& op) { op.give(op.reshape(op["self"], op.result().shape)); }

void transpose(Conversion& op, std::int64_t first, std::int64_t second) {
  Integers order(op.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.at(static_cast<std::size_t>(first)), order.at(static_cast<std::size_t>(second)));
  op.give(op.graph.add("Transpose", {op["self"]}, {{"perm", order}}));
}
Converter swap(const char* first, const char* second) {
  return [=](Conversion& op) {
    if (op.rank() == 0) return op.give(op["self"]);
    transpose(op, op.axis(first, op.rank()), op.axis(second, op.rank()));
  };
}
void swap_last_two(Conversion& op) {
  const auto rank = static_cast<std::int64_t>(op.rank());
  transpose(op, rank - 2, rank - 1);
}
void reverse_axes(Conversion& op) { op.give(op.graph.add("Transpose", {op["self"]})); }

void permute(Conversion& op) {
  Integers order = op.wholes("dims");
  for (std::int64_t& axis : order) axis += axis < 0 ? static_cast<std::int64_t>(op.rank()) : 0;
  op.give(op.graph.add("Transpose", {op["self"]}, {{"perm", order}}));
}

void unsqueeze(Conversion& op) {
  const std::int64_t axis = op.axis("dim", op.rank() + 1);
  op.give(op.graph.add("Unsqueeze", {op["self"], op.graph.integers({axis})}));
}

/// To the result's shape; a size that stays is 1 in what Expand is asked for.
void expand(Conversion& op) {
  const std::vector<Size>& from = op.tensor("self").shape;
  std::vector<Size> shape = op.result().shape;
  const std::size_t added = shape.size() - from.size();
  for (std::size_t i = added; i < shape.size(); ++i) {
    const Size& size = from[i - added];
    if (!size.is_fixed() || size.fixed() != 1) shape[i] = 1;
  }
  op.give(op.graph.add("Expand", {op["self"], op.graph.sizes(op.known(shape))}));
}

void repeat(Conversion& op) {
  const std::vector<Size> repeats = op.sizes("repeats");
  OnnxValue self = op["self"];
  std::vector<Size> shape = op.tensor("self").shape;
  if (repeats.size() > shape.size()) {
    shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
    self = op.reshape(self, shape);
  }
  op.give(op.graph.add("Tile", {self, op.graph.sizes(repeats)}));
}

/// Elements from `begin` to before `end` of dimension `axis`.
OnnxValue cut(Conversion& op, const Size& begin, const Size& end, std::int64_t axis,
              std::int64_t step = 1) {
  return op.graph.add("Slice", {op["self"], op.graph.size(begin), op.graph.size(end),
                                op.graph.integers({axis}), op.graph.integers({step})});
}

void slice(Conversion& op) {
  const Size begin = op.has("start") ? op.size("start") : Size(0);
  const Size end = op.has("end") ? op.size("end") : Size(std::numeric_limits<std::int64_t>::max());
  op.give(cut(op, begin, end, op.axis("dim", op.rank()), op.whole("step", 1)));
}

Size total_of(const Size& a, const Size& b) {
  Size total = a.coefficients.size() >= b.coefficients.size() ? a : b;
  const Size& other = a.coefficients.size() >= b.coefficients.size() ? b : a;
  for (std::size_t i = 0; i < other.coefficients.size(); ++i) {
    total.coefficients[i] += other.coefficients[i];
  }
  return total;
}

void narrow(Conversion& op) {
  const Size begin = op.size("start");
  Size end = total_of(begin, op.size("length"));
  // Counted from the end, the end itself has no number.
  const bool to_the_end =
      begin.is_fixed() && begin.fixed() < 0 && end.is_fixed() && end.fixed() == 0;
  if (to_the_end) end = Size(std::numeric_limits<std::int64_t>::max());
  op.give(cut(op, begin, end, op.axis("dim", op.rank())));
}

void select(Conversion& op) {
  const OnnxValue index = op.as(ElementType::int64, "index");
  op.give(op.graph.add("Gather", {op["self"], index}, {{"axis", op.axis("dim", op.rank())}}));
}

Converter gather(const char* name) {
  return [name](Conversion& op) {
    op.give(op.graph.add(name, {op["self"], op["index"]}, {{"axis", op.axis("dim", op.rank())}}));
  };
}

/// x[index, ...] with indices of whole numbers for some dimensions, which follow one another.
void index(Conversion& op) {
  const OnnxValues indices = op.tensors("indices");
  std::vector<std::size_t> given;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i].empty()) continue;
    const ElementType element = op.tensor("indices", i).element;
    if (element == ElementType::boolean || element == ElementType::uint8) {
      op.refuse("with a mask: how many elements it selects depends on values");
    }
    given.push_back(i);
  }
  if (given.size() == 1) {
    op.give(op.graph.add("Gather", {op["self"], indices[given.front()]},
                         {{"axis", static_cast<std::int64_t>(given.front())}}));
    return;
  }
  if (given.empty() || given.back() + 1 != given.size()) {
    op.refuse("with several indices that do not begin at the first dimension");
  }
  // GatherND wants one tensor of tuples. Zeros of every index's shape bring them to one shape.
  const auto zeros_of = [&](const OnnxValue& value) {
    return op.graph.add("Mul", {value, op.graph.scalar(std::int64_t{0}, ElementType::int64)});
  };
  OnnxValue zeros = zeros_of(indices[0]);
  for (std::size_t i = 1; i < indices.size(); ++i) {
    zeros = op.graph.add("Add", {zeros, zeros_of(indices[i])});
  }
  OnnxValues columns;
  for (const OnnxValue& one : indices) {
    const OnnxValue full = op.graph.add("Add", {one, zeros});
    columns.push_back(op.graph.add("Unsqueeze", {full, op.graph.integers({-1})}));
  }
  const OnnxValue tuples = op.graph.add("Concat", columns, {{"axis", std::int64_t{-1}}});
  op.give(op.graph.add("GatherND", {op["self"], tuples}));
}

/// The tensors of the list, in the result's type.
OnnxValues parts_of(Conversion& op) {
  const ElementType element = op.result().element;
  OnnxValues parts = op.tensors("tensors");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (op.tensor("tensors", i).element != element) parts[i] = op.graph.cast(parts[i], element);
  }
  return parts;
}

void concatenate(Conversion& op) {
  const OnnxValues parts = parts_of(op);
  const std::int64_t axis = op.axis("dim", op.result().shape.size());
  op.give(op.graph.add("Concat", parts, {{"axis", axis}}));
}

void stack(Conversion& op) {
  const std::int64_t axis = op.axis("dim", op.result().shape.size());
  OnnxValues parts = parts_of(op);
  for (OnnxValue& part : parts) {
    part = op.graph.add("Unsqueeze", {part, op.graph.integers({axis})});
  }
  op.give(op.graph.add("Concat", parts, {{"axis", axis}}));
}

/// Chunks and splits of any kind: the trace knows what came out.
void split(Conversion& op) {
  const std::int64_t axis = op.axis("dim", op.rank());
  std::vector<Size> lengths;
  for (std::size_t i = 0; i < op.result_count(); ++i) {
    lengths.push_back(op.known(op.result(i).shape).at(static_cast<std::size_t>(axis)));
  }
  const OnnxValues parts = op.graph.add("Split", {op["self"], op.graph.sizes(lengths)},
                                        {{"axis", axis}}, op.result_count());
  for (std::size_t i = 0; i < parts.size(); ++i) op.give(parts[i], i);
}

void unbind(Conversion& op) {
  const std::int64_t axis = op.axis("dim", op.rank());
  for (std::size_t i = 0; i < op.result_count(); ++i) {
    const OnnxValue place = op.graph.scalar(static_cast<std::int64_t>(i), ElementType::int64);
    op.give(op.graph.add("Gather", {op["self"], place}, {{"axis", axis}}), i);
  }
}

/// LibTorch's amounts have the last dimension first, before and after it.
void pad_with(Conversion& op, const std::string& mode) {
  const Integers amounts = op.wholes(op.has("pad") ? "pad" : "padding");
  const std::size_t rank = op.rank();
  Integers pads(2 * rank, 0);
  for (std::size_t i = 0; i + 1 < amounts.size(); i += 2) {
    const std::size_t axis = rank - 1 - i / 2;
    pads.at(axis) = amounts[i];
    pads.at(axis + rank) = amounts[i + 1];
  }
  OnnxValues inputs = {op["self"], op.graph.integers(pads)};
  if (mode == "constant" && op.has("value")) {
    inputs.push_back(op.as(op.result().element, "value"));
  }
  op.give(op.graph.add("Pad", inputs, {{"mode", mode}}));
}

Converter pad(const char* mode) {
  return [mode](Conversion& op) { pad_with(op, mode); };
}

/// The mode by its number in LibTorch 1 (at::padding_mode), by its name in 2.
void pad_by_mode(Conversion& op) {
  static const std::map<std::string, std::string> kModes = {
      {"0", "reflect"},      {"reflect", "reflect"}, {"1", "edge"},
      {"replicate", "edge"}, {"3", "constant"},      {"constant", "constant"}};
  const std::string given =
      op.is<std::string>("mode") ? op.word("mode") : std::to_string(op.whole("mode"));
  const auto mode = kModes.find(given);
  if (mode == kModes.end()) op.refuse("in a circle");
  pad_with(op, mode->second);
}

void flip(Conversion& op) {
  if (op.wholes("dims").empty()) return op.give(op["self"]);
  const Integers axes = op.axes("dims", op.rank());
  const auto all = [&](std::int64_t value) {
    return op.graph.integers(Integers(axes.size(), value));
  };
  op.give(op.graph.add("Slice", {op["self"], all(-1), all(std::numeric_limits<std::int64_t>::min()),
                                 op.graph.integers(axes), all(-1)}));
}

Converter triangle(bool upper) {
  return [upper](Conversion& op) {
    op.give(op.graph.add("Trilu", {op["self"], op.as(ElementType::int64, "diagonal")},
                         {{"upper", std::int64_t{upper ? 1 : 0}}}));
  };
}

void pixel_shuffle(Conversion& op) {
  if (op.rank() != 4) op.refuse("of anything but [B, C, H, W]");
  op.give(op.graph.add("DepthToSpace", {op["self"]},
                       {{"blocksize", op.whole("upscale_factor")}, {"mode", std::string("CRD")}}));
}

}  // namespace

const Converters& shape_converters() {
  static const Converters table = {
      {"aten::_pad_enum", pad_by_mode},
      {"aten::alias", same},
      {"aten::cat", concatenate},
      {"aten::chunk", split},
      {"aten::clone", same},
      {"aten::concat", concatenate},
      {"aten::constant_pad_nd", pad("constant")},
      {"aten::contiguous", same},
      {"aten::detach", same},
      {"aten::expand", expand},
      {"aten::expand_as", expand},
      {"aten::flatten", reshape},
      {"aten::flip", flip},
      {"aten::gather", gather("GatherElements")},
      {"aten::index", index},
      {"aten::index_select", gather("Gather")},
      {"aten::mT", swap_last_two},
      {"aten::narrow", narrow},
      {"aten::numpy_T", reverse_axes},
      {"aten::pad", pad_by_mode},
      {"aten::permute", permute},
      {"aten::pixel_shuffle", pixel_shuffle},
      {"aten::reflection_pad1d", pad("reflect")},
      {"aten::reflection_pad2d", pad("reflect")},
      {"aten::repeat", repeat},
      {"aten::replication_pad1d", pad("edge")},
      {"aten::replication_pad2d", pad("edge")},
      {"aten::reshape", reshape},
      {"aten::reshape_as", reshape},
      {"aten::select", select},
      {"aten::slice", slice},
      {"aten::split", split},
      {"aten::split_with_sizes", split},
      {"aten::squeeze", reshape},
      {"aten::stack", stack},
      {"aten::swapaxes", swap("axis0", "axis1")},
      {"aten::swapdims", swap("dim0", "dim1")},
      {"aten::t", reverse_axes},
      {"aten::to", cast},
      {"aten::transpose", swap("dim0", "dim1")},
      {"aten::tril", triangle(false)},
      {"aten::triu", triangle(true)},
      {"aten::type_as", cast},
      {"aten::unbind", unbind},
      {"aten::unflatten", reshape},
      {"aten::unsqueeze", unsqueeze},
      {"aten::view", reshape},
      {"aten::view_as", reshape},
  };
  return table;
}

}  // namespace troupe::detail
