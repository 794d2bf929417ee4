#include "troupe/train/model_summary.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "troupe/core/text.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/hooks/replica.h"

namespace troupe {
namespace {

/// As Python spells it: "float32" where LibTorch's C++ says "Float".
std::string type_of(at::ScalarType type) {
  static const std::map<at::ScalarType, std::string> kNames = {
      {at::kFloat, "float32"}, {at::kDouble, "float64"}, {at::kHalf, "float16"},
      {at::kLong, "int64"},    {at::kInt, "int32"},      {at::kShort, "int16"},
      {at::kChar, "int8"},     {at::kByte, "uint8"}};
  const auto known = kNames.find(type);
  if (known != kNames.end()) return known->second;
  std::string name = text(type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name;
}

/// "lr = 0.1, nesterov = false"
class OptionText final : public FieldVisitor {
 public:
  void operator()(const char* name, bool& value) override { add(name, value ? "true" : "false"); }
  void operator()(const char* name, std::int64_t& value) override { add(name, text(value)); }
  void operator()(const char* name, double& value) override { add(name, text(value)); }
  void operator()(const char* /*name*/, at::Tensor& /*value*/) override {}  // no option is one

  std::string options;

 private:
  void add(const char* name, const std::string& value) {
    options += text(options.empty() ? "" : ", ", name, " = ", value);
  }
};

}  // namespace

std::string optimizer_lines(Replica& replica) {
  std::string lines;
  for (const std::string& name : replica.optimizer_names()) {
    torch::optim::Optimizer& optimizer = replica.optimizer(name);
    const detail::OptimizerKind* const kind = find_kind(optimizer);
    if (kind == nullptr) continue;  // an own one that nothing has to save
    for (auto& group : optimizer.param_groups()) {
      OptionText said;
      kind->options(group.options(), said);
      lines += text(name, ": ", kind->name, " of ", group.params().size(), " parameters, ",
                    said.options, "\n");
    }
  }
  return lines;
}

std::vector<ParameterRow> parameter_rows(Replica& replica) {
  std::map<const c10::TensorImpl*, std::string> owners;
  for (const std::string& name : replica.optimizer_names()) {
    for (const auto& group : replica.optimizer(name).param_groups()) {
      for (const at::Tensor& tensor : group.params()) {
        owners.emplace(tensor.unsafeGetTensorImpl(), name);
      }
    }
  }
  std::map<const c10::TensorImpl*, std::string> seen;
  std::vector<ParameterRow> rows;
  const auto add = [&](const NamedTensor& named, bool is_buffer) {
    const at::Tensor& tensor = named.second;
    ParameterRow row;
    row.name = named.first;
    row.shape = tensor.sizes().vec();
    row.count = tensor.numel();
    row.bytes = static_cast<std::int64_t>(tensor.nbytes());
    row.type = type_of(tensor.scalar_type());
    row.is_buffer = is_buffer;
    const auto owner = owners.find(tensor.unsafeGetTensorImpl());
    if (owner != owners.end()) row.optimizer = owner->second;
    row.trained = !is_buffer && tensor.requires_grad() && !row.optimizer.empty();
    const auto [first, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), row.name);
    if (!is_new) row.tied_to = first->second;
    rows.push_back(std::move(row));
  };
  // Under all their names, where parameters() has the first.
  for (const auto& [name, model] : replica.models()) {
    for (const auto& item : model->named_parameters())
      add({(name == "model" ? "" : name + ".") + item.key(), item.value()}, false);
  }
  for (const NamedTensor& buffer : replica.buffers()) add(buffer, true);
  return rows;
}

}  // namespace troupe
