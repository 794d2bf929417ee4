// Event messages: the content of an event file's records. Encodes what Troupe writes, and decodes
// what it reads back. docs/summaries.md has the field numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct Scalar {
  std::string tag;  // UTF-8: "loss", "global_step/sec"
  double value = 0;
};

/// Seconds since 1970.
using WallTime = double;

/// The first event of a file: it tells readers the format.
[[nodiscard]] std::string encode_file_version(WallTime now);
/// Tells readers that a run starts at `step`: what older files say of this step and later ones
/// belongs to an abandoned run.
[[nodiscard]] std::string encode_session_start(std::int64_t step, WallTime now);
/// Values that are not finite are written as they are.
[[nodiscard]] std::string encode_scalars(std::int64_t step, const std::vector<Scalar>& scalars,
                                         WallTime now);
[[nodiscard]] std::string encode_text(std::int64_t step, const std::string& tag,
                                      const std::string& content, WallTime now);

struct Event {
  std::int64_t step = 0;
  bool session_start = false;
  std::vector<Scalar> scalars;
};

/// Numbers given as simple_value, or as a tensor of one float32 or float64 without dimensions.
/// Everything else (images, histograms, texts, fields of later versions) is skipped.
/// Throws: DataError if `message` is not a protocol-buffer message.
[[nodiscard]] Event decode_event(std::string_view message);

}  // namespace troupe
