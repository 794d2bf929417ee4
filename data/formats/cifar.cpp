#include "troupe/data/formats/cifar.h"

#include <algorithm>
#include <cstring>

#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"

namespace troupe {
namespace {

constexpr std::int64_t kRecordBytes = 1 + kCifarPixels;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr std::int64_t kRecordsAtOnce = 1000;

constexpr const char* kUnpackAgain =
    "unpack CIFAR-10's binary version again; its files hold records of 3073 bytes.";

// How many records the file has; it is what it should be but for labels.
std::int64_t count_records(const detail::DataFile& file) {
  const auto size = static_cast<std::int64_t>(file.file_bytes());
  if (size == 0) file.fail("is empty");
  if (size > kMostBytes) file.fail(text("has ", size, " bytes, at most ", kMostBytes, " are read"));
  if (file.compressed()) file.fail("is compressed");
  if (size % kRecordBytes != 0) {
    file.fail(text("is truncated: it ends in record ", size / kRecordBytes, ", after ",
                   size % kRecordBytes, " of its ", kRecordBytes, " bytes"));
  }
  return size / kRecordBytes;
}

void append(std::vector<std::uint8_t>& images, std::vector<std::uint8_t>& labels,
            detail::DataFile& file) {
  const std::int64_t records = count_records(file);
  const std::size_t before = labels.size();
  labels.resize(before + static_cast<std::size_t>(records));
  images.resize(labels.size() * kCifarPixels);
  std::uint8_t* label = labels.data() + before;
  std::uint8_t* image = images.data() + before * kCifarPixels;
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(kRecordsAtOnce * kRecordBytes));
  for (std::int64_t record = 0; record < records;) {
    const std::int64_t count = std::min(kRecordsAtOnce, records - record);
    file.read(piece.data(), static_cast<std::uint64_t>(count * kRecordBytes), file.file_bytes(),
              "records");
    const std::uint8_t* from = piece.data();
    for (std::int64_t i = 0; i < count; ++i, ++record, from += kRecordBytes) {
      if (*from >= kCifarClasses) {
        file.fail(text("has label ", int{*from}, " in record ", record, ", expected 0 to ",
                       kCifarClasses - 1));
      }
      *label++ = *from;
      std::memcpy(image, from + 1, kCifarPixels);
      image += kCifarPixels;
    }
  }
}

}  // namespace

std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> read_cifar(
    const std::filesystem::path& dir, const std::vector<std::string>& names) {
  std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> all;
  for (const std::string& name : names) {
    detail::DataFile file(dir / name, kUnpackAgain);
    append(all.first, all.second, file);
  }
  return all;
}

}  // namespace troupe
