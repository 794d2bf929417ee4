#include "examples/digits/example_data.h"

#include <ATen/Functions.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "examples/digits/shapes.h"
#include "troupe/core/log.h"
#include "troupe/data/formats/picture_sets.h"

namespace troupe {
namespace {

constexpr std::uint64_t kTrainShapesSeed = 1;
constexpr std::uint64_t kTestShapesSeed = 2;

std::shared_ptr<const Dataset> digits(DigitsSplit split, std::int64_t count) {
  return std::make_shared<GeneratedDigits>(split, count, kDefaultDigitsSeed, kMnistScale);
}

/// Of generated pictures always as many validate, or none.
Splits hold_out_default(const std::shared_ptr<const Dataset>& all, std::int64_t train_examples,
                        std::int64_t validation_examples) {
  Splits splits = hold_out(all, kDefaultValidationDigits, train_examples);
  if (validation_examples == 0) splits.validation = nullptr;
  return splits;
}

/// Some of a small data set must be left to train on.
Splits from_files(const DataOptions& options, std::int64_t validation_examples) {
  constexpr std::int64_t kShare = 6;
  Splits whole = load_mnist({options.data_dir, 0}, 0);
  const std::int64_t size = whole.train->size();
  const std::int64_t held = validation_examples < size ? validation_examples : size / kShare;
  if (held != validation_examples) {
    log_info(size, " training images: the last ", held, " of them are held out for validation");
  }
  Splits splits = hold_out(whole.train, held, options.train_examples);
  splits.test = std::move(whole.test);
  return splits;
}

}  // namespace

Splits mnist_or_digits(const DataOptions& options, std::int64_t validation_examples) {
  if (!options.data_dir.empty()) return from_files(options, validation_examples);
  Splits splits =
      hold_out_default(digits(DigitsSplit::train, kDefaultTrainDigits + kDefaultValidationDigits),
                       options.train_examples, validation_examples);
  splits.test = digits(DigitsSplit::test, kDefaultTestDigits);
  return splits;
}

Splits cifar10_or_shapes(const DataOptions& options, std::int64_t validation_examples) {
  if (!options.data_dir.empty()) return load_cifar10(options, validation_examples);
  Splits splits =
      hold_out_default(cifar_dataset(generate_shapes(kDefaultTrainDigits + kDefaultValidationDigits,
                                                     kTrainShapesSeed)),
                       options.train_examples, validation_examples);
  splits.test = cifar_dataset(generate_shapes(kDefaultTestDigits, kTestShapesSeed));
  return splits;
}

GeneratedDigits::GeneratedDigits(DigitsSplit split, std::int64_t count, std::uint64_t seed,
                                 ByteScale scale)
    : split_(split),
      count_(count),
      seed_(seed),
      images_(at::empty({count, 1, kDigitSide, kDigitSide}, at::kByte)),
      labels_(at::empty({count}, at::kLong)),
      digits_({images_, labels_}, scale),
      drawn_(static_cast<std::size_t>(count)) {}

std::vector<at::Tensor> GeneratedDigits::get(const at::Tensor& indices) const {
  std::vector<at::Tensor> fields;
  get_into(indices, fields);
  return fields;
}

void GeneratedDigits::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  const bool usual = indices.scalar_type() == at::kLong && indices.is_contiguous();
  if (!usual) return get_into(indices.to(at::kLong).contiguous(), fields);
  const auto* const rows = indices.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    if (rows[i] >= 0 && rows[i] < count_) draw_if_missing(rows[i]);  // others are refused below
  }
  digits_.get_into(indices, fields);
}

void GeneratedDigits::draw_if_missing(std::int64_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = static_cast<std::size_t>(index);
  if (drawn_[place]) return;
  labels_.data_ptr<std::int64_t>()[index] =
      generate_digit(split_, index, seed_, images_.data_ptr<std::uint8_t>() + index * kDigitPixels);
  drawn_[place] = true;
}

}  // namespace troupe
