#include "data/dataset.h"

#include <ATen/Functions.h>

#include <cstddef>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::int64_t begin, std::int64_t count)
      : dataset_(std::move(dataset)), begin_(begin), count_(count) {}

  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    return dataset_->get(indices.add(begin_));
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::int64_t begin_;
  std::int64_t count_;
};

}  // namespace

TensorDataset::TensorDataset(std::vector<at::Tensor> fields, BatchTransform transform)
    : fields_(std::move(fields)), transform_(std::move(transform)) {
  if (fields_.empty()) {
    throw DataError("A TensorDataset was given no tensor.", "give one tensor per field.");
  }
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    at::Tensor& field = fields_[i];
    if (!field.defined() || field.dim() < 1) {
      throw DataError(text("Field ", i, " of a TensorDataset is ",
                           field.defined() ? "a single number" : "an undefined tensor", "."),
                      "give tensors whose first dimension counts the examples.");
    }
    if (field.size(0) != fields_[0].size(0)) {
      throw DataError(text("Field ", i, " of a TensorDataset has ", field.size(0),
                           " examples, field 0 has ", fields_[0].size(0), "."),
                      "give tensors with equal first dimensions.");
    }
    field = field.detach().contiguous();  // rows that lie together are gathered fastest
  }
}

std::int64_t TensorDataset::size() const { return fields_[0].size(0); }

std::vector<at::Tensor> TensorDataset::get(const at::Tensor& indices) const {
  std::vector<at::Tensor> batch;
  batch.reserve(fields_.size());
  for (const at::Tensor& field : fields_) batch.push_back(field.index_select(0, indices));
  return transform_ ? transform_(std::move(batch)) : batch;
}

std::shared_ptr<const Dataset> take(std::shared_ptr<const Dataset> dataset, std::int64_t begin,
                                    std::int64_t count) {
  const std::int64_t size = dataset ? dataset->size() : 0;
  if (!dataset || begin < 0 || count < 0 || begin > size || count > size - begin) {
    throw ConfigError(
        text("take() asks for ", count, " examples from example ", begin, " of a ",
             dataset ? text("data set of ", size) : std::string("null data set"), "."),
        "ask for examples that the data set has.");
  }
  return std::make_shared<Subset>(std::move(dataset), begin, count);
}

}  // namespace troupe
