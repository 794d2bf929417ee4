#include "data/cifar10.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/hold_out.h"

namespace troupe {
namespace {

// uint8 [B, 3, 32, 32] to float32, normalised. One middle and one width for all colours: the first
// layer learns the rest.
constexpr ByteScale kCifarScale{4.0 / 255, 2.0};

// A tensor over the memory of `values`, which it keeps alive; nothing is copied.
at::Tensor adopt_bytes(std::vector<std::uint8_t> values, at::IntArrayRef shape) {
  auto* const owner = new std::vector<std::uint8_t>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, at::kByte);
}

}  // namespace

std::shared_ptr<const Dataset> cifar_dataset(CifarRecords records) {
  const auto count = static_cast<std::int64_t>(records.labels.size());
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{
          adopt_bytes(std::move(records.images), {count, 3, kCifarSide, kCifarSide}),
          adopt_bytes(std::move(records.labels), {count}).to(at::kLong)},
      kCifarScale);
}

Splits load_cifar10(const DataOptions& options, std::int64_t validation_examples) {
  if (options.data_dir.empty()) {
    throw ConfigError("load_cifar10() is given no directory.", "give --data-dir DIR.");
  }
  const auto read = [&](const std::vector<std::string>& names) {
    return cifar_dataset(read_cifar(options.data_dir, names));
  };
  Splits splits = hold_out(read({"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin"}),
                           validation_examples, options.train_examples);
  splits.test = read({"test_batch.bin"});
  return splits;
}

}  // namespace troupe
