#include "troupe/export/onnx/in_place.h"

#include <set>
#include <string>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

/// Whether the result of `op` may be in its argument's memory.
bool makes_view(const std::string& op) {
  static const std::set<std::string> kViews = {
      "aten::alias",    "aten::as_strided", "aten::chunk",      "aten::detach",
      "aten::diagonal", "aten::expand",     "aten::expand_as",  "aten::flatten",
      "aten::mT",       "aten::movedim",    "aten::narrow",     "aten::numpy_T",
      "aten::permute",  "aten::reshape",    "aten::reshape_as", "aten::select",
      "aten::slice",    "aten::split",      "aten::squeeze",    "aten::split_with_sizes",
      "aten::swapaxes", "aten::swapdims",   "aten::t",          "aten::transpose",
      "aten::unbind",   "aten::unflatten",  "aten::unfold",     "aten::unsqueeze",
      "aten::view",     "aten::view_as"};
  return kViews.count(op) > 0;
}

}  // namespace

void replace_in_place(TracedGraph& trace) {
  std::set<ValueId> shared;  // in whose memory another tensor is
  for (TracedNode& node : trace.nodes) {
    if (makes_view(node.op)) {
      shared.insert(node.arguments.front().second);
      shared.insert(node.outputs.begin(), node.outputs.end());
    }
    const std::string& op = node.op;
    const bool is_in_place = op.size() > 1 && op.back() == '_' && op[op.size() - 2] != '_';
    if (!is_in_place || node.arguments.empty()) continue;
    const ValueId changed = node.arguments.front().second;
    const auto* tensor = std::get_if<TracedTensor>(&trace.values[changed]);
    if (shared.count(changed) > 0 || (tensor != nullptr && tensor->weights != nullptr)) {
      throw ConfigError(
          text("the export to ONNX does not cover ", node.op,
               ": it changes a tensor in place that a view, a parameter or a buffer shares."),
          text("use ", node.op.substr(0, node.op.size() - 1),
               ", which makes a new tensor, or export with --export-format torchscript."));
    }
    node.op.pop_back();
  }
}

}  // namespace troupe::detail
