// NumPy's files: .npy, an array, and .npz, several by name in a zip archive. Free of LibTorch;
// data/formats/load_files.h makes tensors of them. The byte tables are in docs/data.md.
//
// A file is hostile until checked: headers are held against the file's size before memory for
// values is taken, and nothing in it is executed: arrays of Python objects are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// Type of the values.
enum class NpyType { boolean, uint8, int8, int16, int32, int64, float16, float32, float64 };

/// Bytes of one value.
[[nodiscard]] std::size_t npy_value_bytes(NpyType type);

/// An array of 0 to 8 dimensions, values in row-major order and in the machine's byte order.
struct NpyArray {
  NpyType type = NpyType::uint8;
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;  // product of dims times npy_value_bytes(type)
};

/// Reads a .npy file of format 1, 2 or 3, as numpy.save writes it, plain or gzip-compressed.
/// Throws: DataError naming the path, what was found and what to do: as read_idx, and for values of
/// other types (unsigned of more than 8 bits, complex, text, records, Python objects).
/// Cost: takes at most the memory of the values, twice that for an array in Fortran's order; of a
/// compressed file only as they are unpacked.
[[nodiscard]] NpyArray read_npy(const std::filesystem::path& path);

/// Reads all arrays of a .npz file, as numpy.savez and numpy.savez_compressed write it, by their
/// names without ".npy".
/// Throws: as read_npy, naming the array; DataError for what is no zip archive of .npy files, one
/// with parts of 4 GiB or more, a name that is there twice, a wrong CRC, or an archive that unpacks
/// to more than 64 MiB and more than 100 times its own size.
[[nodiscard]] std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path);

}  // namespace troupe
