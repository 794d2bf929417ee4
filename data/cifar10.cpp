#include "data/cifar10.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/cifar.h"
#include "data/shapes.h"

namespace troupe {
namespace {

constexpr std::int64_t kGeneratedTrain = 10'000;
constexpr std::int64_t kGeneratedValidation = 1'000;
constexpr std::int64_t kGeneratedTest = 2'000;
constexpr std::uint64_t kTrainSeed = 1;
constexpr std::uint64_t kTestSeed = 2;

// uint8 [B, 3, 32, 32] to float32, normalised. One middle and one width for all colours: the first
// layer learns the rest.
constexpr ByteScale kNormalised{4.0 / 255, 2.0};

// A tensor over the memory of `values`, which it keeps alive; nothing is copied.
at::Tensor adopt_bytes(std::vector<std::uint8_t> values, at::IntArrayRef shape) {
  auto* const owner = new std::vector<std::uint8_t>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, at::kByte);
}

std::shared_ptr<const Dataset> make_dataset(CifarRecords records) {
  const auto count = static_cast<std::int64_t>(records.labels.size());
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{
          adopt_bytes(std::move(records.images), {count, 3, kCifarSide, kCifarSide}),
          adopt_bytes(std::move(records.labels), {count}).to(at::kLong)},
      kNormalised);
}

}  // namespace

Splits load_cifar10(const DataOptions& options, std::int64_t validation_examples) {
  const bool generated = options.data_dir.empty();
  const auto all =
      make_dataset(generated ? generate_shapes(kGeneratedTrain + kGeneratedValidation, kTrainSeed)
                             : read_cifar(options.data_dir, {"data_batch_1.bin", "data_batch_2.bin",
                                                             "data_batch_3.bin", "data_batch_4.bin",
                                                             "data_batch_5.bin"}));
  const std::int64_t held_out = generated ? kGeneratedValidation : validation_examples;
  if (validation_examples < 0 || held_out >= all->size()) {
    throw ConfigError(text("load_cifar10() is to hold out ", validation_examples, " of ",
                           all->size(), " training examples for validation."),
                      "hold out at least 0, and fewer than there are.");
  }
  const std::int64_t available = all->size() - held_out;
  if (options.train_examples < 0 || options.train_examples > available) {
    throw ConfigError(text("--train-examples asks for ", options.train_examples, " of ", available,
                           " training examples."),
                      text("give 1 to ", available, ", or leave it out to use all."));
  }
  Splits splits;
  splits.train = take(all, 0, options.train_examples > 0 ? options.train_examples : available);
  if (validation_examples > 0) splits.validation = take(all, available, held_out);
  splits.test = make_dataset(generated ? generate_shapes(kGeneratedTest, kTestSeed)
                                       : read_cifar(options.data_dir, {"test_batch.bin"}));
  return splits;
}

}  // namespace troupe
