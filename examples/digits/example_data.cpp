#include "examples/digits/example_data.h"

#include <memory>
#include <utility>

#include "examples/digits/digits.h"
#include "examples/digits/generated_digits.h"
#include "examples/digits/shapes.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/cifar10.h"
#include "troupe/data/formats/mnist.h"

namespace troupe {
namespace {

constexpr std::uint64_t kTrainShapesSeed = 1;
constexpr std::uint64_t kTestShapesSeed = 2;

std::shared_ptr<const Dataset> digits(DigitsSplit split, std::int64_t begin, std::int64_t count) {
  return std::make_shared<GeneratedDigits>(split, begin, count, kDefaultDigitsSeed, kMnistScale);
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
  const std::int64_t asked = options.train_examples;
  if (asked < 0 || asked > kDefaultTrainDigits) {
    throw ConfigError(text("--train-examples asks for ", asked, " of ", kDefaultTrainDigits,
                           " training examples."),
                      text("give 1 to ", kDefaultTrainDigits, ", or leave it out to use all."));
  }
  Splits splits;
  splits.train = digits(DigitsSplit::train, 0, asked > 0 ? asked : kDefaultTrainDigits);
  if (validation_examples > 0) {
    splits.validation = digits(DigitsSplit::train, kDefaultTrainDigits, kDefaultValidationDigits);
  }
  splits.test = digits(DigitsSplit::test, 0, kDefaultTestDigits);
  return splits;
}

Splits cifar10_or_shapes(const DataOptions& options, std::int64_t validation_examples) {
  if (!options.data_dir.empty()) return load_cifar10(options, validation_examples);
  const auto all = cifar_dataset(
      generate_shapes(kDefaultTrainDigits + kDefaultValidationDigits, kTrainShapesSeed));
  Splits splits = hold_out(all, kDefaultValidationDigits, options.train_examples);
  if (validation_examples == 0) splits.validation = nullptr;
  splits.test = cifar_dataset(generate_shapes(kDefaultTestDigits, kTestShapesSeed));
  return splits;
}

}  // namespace troupe
