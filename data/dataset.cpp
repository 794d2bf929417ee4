#include "troupe/data/dataset.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/span.h"
#include "troupe/core/text.h"
#include "troupe/data/tensor_memory.h"

namespace troupe {
namespace {

Span<const std::int64_t> checked(const at::Tensor& indices, std::int64_t size);

class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::int64_t begin, std::int64_t count)
      : dataset_(std::move(dataset)), begin_(begin), count_(count) {}

  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    return dataset_->get(indices.add(begin_));
  }
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const override {
    dataset_->get_into(indices.add(begin_), fields);
  }
  void draw_into(const at::Tensor& indices, const DrawPlace& place,
                 std::vector<at::Tensor>& fields) const override {
    dataset_->draw_into(indices.add(begin_), place, fields);
  }
  [[nodiscard]] std::vector<std::string> classes() const override { return dataset_->classes(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::int64_t begin_;
  std::int64_t count_;
};

/// Examples that are their numbers in their step.
class OwnSteps final : public Dataset {
 public:
  OwnSteps(std::int64_t per_step, std::int64_t steps) : per_step_(per_step), steps_(steps) {}

  [[nodiscard]] std::int64_t size() const override { return per_step_ * steps_; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    (void)checked(indices, size());
    return {indices.remainder(per_step_)};
  }
  /// A replica's share follows one another in one step; in another order a replica would have
  /// another one's environments.
  void draw_into(const at::Tensor& indices, const DrawPlace& /*place*/,
                 std::vector<at::Tensor>& fields) const override {
    const Span<const std::int64_t> numbers = checked(indices, size());
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      if (numbers[i] == numbers[i - 1] + 1 && numbers[i] % per_step_ != 0) continue;
      throw ConfigError(
          text("own_steps of ", per_step_,
               " examples were read in another order than "
               "theirs, or in batches of another size."),
          text("set Splits::sampler to sequential(), and --batch-size to ", per_step_, "."));
    }
    fields = get(indices);
  }

 private:
  const std::int64_t per_step_;
  const std::int64_t steps_;
};

/// Memory that can be copied byte by byte.
bool is_plain(const at::Tensor& field) {
  return field.is_cpu() && field.layout() == at::kStrided && !field.is_quantized() &&
         !field.is_conj() && !field.is_neg();
}

Span<const std::int64_t> checked(const at::Tensor& indices, std::int64_t size) {
  if (indices.dim() != 1) {
    throw DataError(text("A batch was asked for by indices of ", indices.dim(), " dimensions."),
                    "give indices [B].");
  }
  const Span<const std::int64_t> rows(indices.data_ptr<std::int64_t>(),
                                      static_cast<std::size_t>(indices.size(0)));
  for (const std::int64_t row : rows) {
    if (row >= 0 && row < size) continue;
    throw DataError(text("Example ", row, " was asked for, of a data set of ", size, "."),
                    "ask for examples from 0 on that the data set has.");
  }
  return rows;
}

}  // namespace

void Dataset::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  fields.clear();  // their memory can be had again for what is made now
  fields = get(indices);
}

void Dataset::draw_into(const at::Tensor& indices, const DrawPlace& /*place*/,
                        std::vector<at::Tensor>& fields) const {
  get_into(indices, fields);
}

ExampleRandom DrawPlace::random(std::int64_t i) const {
  // Apart from EpochDraw::random, so that an order and its examples' numbers have nothing in
  // common.
  std::uint64_t state = ExampleRandom(seed ^ 0x6578616D706C6573u).next();
  state = ExampleRandom(state + static_cast<std::uint64_t>(epoch)).next();
  return ExampleRandom(ExampleRandom(state + static_cast<std::uint64_t>(first + i)).next());
}

TensorDataset::TensorDataset(
    std::vector<at::Tensor> fields,
    std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> transform)
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

TensorDataset::TensorDataset(std::vector<at::Tensor> fields, ByteScale scale)
    : TensorDataset(std::move(fields)) {
  scale_ = scale;
}

void TensorDataset::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  const bool usual = indices.scalar_type() == at::kLong && indices.is_contiguous();
  if (!usual) return get_into(indices.to(at::kLong).contiguous(), fields);
  fields.resize(fields_.size());
  for (std::size_t i = 0; i < fields_.size(); ++i) gather(fields_[i], indices, fields[i]);
  if (transform_) fields = transform_(std::move(fields));
}

void TensorDataset::gather(const at::Tensor& field, const at::Tensor& indices,
                           at::Tensor& out) const {
  const auto rows = checked(indices, size());
  const bool scaled = scale_ && field.scalar_type() == at::kByte;
  if (!is_plain(field)) {
    out = field.index_select(0, indices);
    return;
  }
  at::DimVector shape(field.sizes());
  shape[0] = indices.size(0);
  detail::make_room(out, shape, scaled ? at::kFloat : field.scalar_type());
  const auto row_length = static_cast<std::size_t>(size() == 0 ? 0 : field.numel() / size());
  if (scaled) {
    detail::scale_rows(field.data_ptr<std::uint8_t>(), row_length, rows, *scale_,
                       out.data_ptr<float>());
  } else {
    detail::copy_rows(static_cast<const std::byte*>(field.data_ptr()),
                      row_length * field.element_size(), rows,
                      static_cast<std::byte*>(out.data_ptr()));
  }
}

std::shared_ptr<const TensorDataset> TensorDataset::part(std::int64_t begin,
                                                         std::int64_t count) const {
  auto result = std::make_shared<TensorDataset>(*this);
  for (at::Tensor& field : result->fields_) field = field.narrow(0, begin, count);
  return result;
}

std::shared_ptr<const Dataset> take(std::shared_ptr<const Dataset> dataset, std::int64_t begin,
                                    std::int64_t count) {
  std::int64_t size = dataset ? dataset->size() : 0;
  if (size == kUnknownSize) size = INT64_MAX;
  if (!dataset || begin < 0 || count < 0 || begin > size || count > size - begin) {
    throw ConfigError(
        text("take() asks for ", count, " examples from example ", begin, " of a ",
             dataset ? text("data set of ", size) : std::string("null data set"), "."),
        "ask for examples that the data set has.");
  }
  if (const auto* const tensors = dynamic_cast<const TensorDataset*>(dataset.get())) {
    return tensors->part(begin, count);  // saves an addition and its tensor in every batch
  }
  return std::make_shared<Subset>(std::move(dataset), begin, count);
}

std::shared_ptr<const Dataset> own_steps(std::int64_t per_step, std::int64_t steps) {
  if (per_step < 1 || steps < 1 || per_step > INT64_MAX / steps) {
    throw ConfigError(
        text("own_steps was given ", per_step, " examples in each of ", steps, " steps."),
        "give at least 1 of each.");
  }
  return std::make_shared<OwnSteps>(per_step, steps);
}

std::shared_ptr<const Dataset> first_of(const std::shared_ptr<const Dataset>& dataset,
                                        std::int64_t most) {
  const std::int64_t size = dataset->size();
  return take(dataset, 0, size == kUnknownSize ? 1 : std::min(size, most));
}

Splits hold_out(const std::shared_ptr<const Dataset>& all, std::int64_t validation_examples,
                std::int64_t train_examples) {
  if (validation_examples < 0 || validation_examples > all->size()) {
    throw ConfigError(text("The data set is to hold out ", validation_examples, " of ", all->size(),
                           " training examples for validation."),
                      "hold out at least 0 and at most as many as there are.");
  }
  const std::int64_t available = all->size() - validation_examples;
  if (train_examples < 0 || train_examples > available) {
    throw ConfigError(text("--train-examples asks for ", train_examples, " of ", available,
                           " training examples."),
                      text("give 1 to ", available, ", or leave it out to use all."));
  }
  Splits splits;
  splits.train = take(all, 0, train_examples > 0 ? train_examples : available);
  if (validation_examples > 0) splits.validation = take(all, available, validation_examples);
  return splits;
}

}  // namespace troupe
