// Safetensors: named arrays in one file, without anything that could be executed. The byte table is
// in docs/checkpoint_format.md; Python's `safetensors` reads and writes the same files.
//
// A file is hostile until checked: every offset, shape and type is held against the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/core/span.h"

namespace troupe {

enum class TensorType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// The file's name for a type ("F32") and the bytes of one value.
[[nodiscard]] const char* name_of(TensorType dtype);
[[nodiscard]] std::size_t bytes_of(TensorType dtype);

/// One array, row-major and little-endian; the bytes belong to someone else.
struct TensorView {
  std::string name;  // UTF-8, not "__metadata__"
  TensorType dtype = TensorType::f32;
  std::vector<std::int64_t> shape;  // each >= 0; {} is one value
  Span<const std::byte> bytes;      // product of shape times bytes_of(dtype)
};

/// What a file holds: tensors in the order of their bytes, and the writer's own texts.
struct SafetensorsContent {
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

/// Takes the next bytes of a file.
using ByteSink = std::function<void(Span<const std::byte>)>;

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, as in the reference

/// Writes a file into `sink`, tensor by tensor and without a copy of their bytes. Order in the
/// file: wide types first, then by name, so each tensor is aligned to its type and the data to 8.
/// Throws: CheckpointError if two names are equal, a name or text is not UTF-8, or bytes do not
/// match shape and type; nothing has been written then. And what `sink` throws.
void write_safetensors(const SafetensorsContent& content, const ByteSink& sink);

/// What a reader looks at before it takes memory for a file: how many bytes the header and its
/// length have, by the file's first kSafetensorsLength bytes, and whether the file's size is the
/// one that this start of it announces. Throws: CheckpointError that says what is wrong.
inline constexpr std::uint64_t kSafetensorsLength = 8;
[[nodiscard]] std::uint64_t safetensors_start_bytes(Span<const std::byte> first,
                                                    const std::string& shown);
void check_safetensors_size(Span<const std::byte> start, std::uint64_t file_bytes,
                            const std::string& shown);

/// Reads a file. The views point into `file`, which must outlive them; a file of another writer may
/// have them unaligned, so copy values out with memcpy. `shown` names the file in messages.
/// Throws: CheckpointError that says what is wrong.
[[nodiscard]] SafetensorsContent read_safetensors(Span<const std::byte> file,
                                                  const std::string& shown);

}  // namespace troupe
