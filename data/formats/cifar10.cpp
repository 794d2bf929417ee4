#include "troupe/data/formats/cifar10.h"

#include <string>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/data/formats/byte_images.h"

namespace troupe {
namespace {

// uint8 [B, 3, 32, 32] to float32, normalised. One middle and one width for all colours: the first
// layer learns the rest.
constexpr ByteScale kCifarScale{4.0 / 255, 2.0};

}  // namespace

std::shared_ptr<const Dataset> cifar_dataset(CifarRecords records) {
  return detail::byte_images(std::move(records.images), std::move(records.labels), 3, kCifarSide,
                             kCifarSide, kCifarScale);
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
