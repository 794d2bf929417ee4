// IDX: the file format of MNIST: arrays of numbers, big-endian, plain or gzip-compressed. The byte
// table is in docs/data.md. Free of LibTorch.
//
// A file is hostile until checked: its header is held against the file's size before memory for the
// values is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// Type of the values; the number is the file's.
enum class IdxType : std::uint8_t {
  uint8 = 0x08,
  int8 = 0x09,
  int16 = 0x0B,
  int32 = 0x0C,
  float32 = 0x0D,
  float64 = 0x0E,
};

/// Bytes of one value.
[[nodiscard]] std::size_t idx_value_bytes(IdxType type);

/// An array of 1 to 4 dimensions, values in row-major order and in the machine's byte order.
struct IdxArray {
  IdxType type = IdxType::uint8;
  std::vector<std::int64_t> dims;  // each in [0, 2^32)
  std::vector<std::byte> bytes;    // product of dims times idx_value_bytes(type)
};

/// Reads a file, plain or gzip-compressed; the content tells which, not the name.
/// Throws: DataError naming the path, what was found and what was expected, if the file is missing,
/// not readable, no regular file, no IDX file, shorter or longer than its header says, or corrupt,
/// or if a compressed one announces more than 64 MiB and more than 100 times its own size; what
/// `check` throws, which looks at type and dimensions before the values are read.
/// Cost: takes at most the memory of the values; of a compressed file only as they are unpacked.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path,
                                const std::function<void(const IdxArray&)>& check = {});

/// Writes a plain file over what is there.
/// Throws: EnvironmentError; InternalError if dims and bytes do not agree.
void write_idx(const std::filesystem::path& path, const IdxArray& array);

/// The file called `name` ("train-images-idx3-ubyte") in `dir` in one of its usual spellings: as it
/// is or with ".idx" for "-idx", plain or with ".gz" behind.
/// Throws: DataError that lists what it looked for.
[[nodiscard]] std::filesystem::path find_idx(const std::filesystem::path& dir,
                                             const std::string& name);

}  // namespace troupe
