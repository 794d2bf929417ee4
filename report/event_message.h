// Event messages: the content of an event file's records. Encodes what Troupe writes, and decodes
// what it reads back. docs/summaries.md has the field numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/span.h"

namespace troupe {

struct Scalar {
  std::string tag;  // UTF-8: "loss", "global_step/sec"
  double value = 0;
};

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

/// How values are spread: counts[i] of them lie in [edges[i], edges[i + 1]), in the last bin up to
/// its upper edge.
struct Histogram {
  std::vector<double> edges;  // one more than counts, rising; empty: no finite value
  std::vector<std::int64_t> counts;
  double sum = 0;             // of the finite values
  double sum_of_squares = 0;  // of the finite values
  std::int64_t not_finite = 0;
};

/// The finite values in `bins` bins of equal width between the smallest and the largest; in one if
/// all are equal.
[[nodiscard]] Histogram make_histogram(Span<const float> values, int bins = 30);

/// `histogram` has edges.
[[nodiscard]] std::string encode_histogram(std::int64_t step, const std::string& tag,
                                           const Histogram& histogram, WallTime now);

/// A PNG file's size in pixels, as its header says.
struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};
/// Unset: `bytes` do not begin as a PNG file does.
[[nodiscard]] std::optional<ImageSize> png_size(std::string_view bytes);
[[nodiscard]] std::string encode_image(std::int64_t step, const std::string& tag,
                                       const std::string& png, const ImageSize& size, WallTime now);

struct Event {
  std::int64_t step = 0;
  bool session_start = false;
  std::vector<Scalar> scalars;
  std::vector<std::string> tags;  // of all values, whatever they are
};

/// Numbers given as simple_value, or as a tensor of one float32 or float64 without dimensions.
/// Of everything else (images, histograms, texts, fields of later versions) the tags are kept.
/// Throws: DataError if `message` is not a protocol-buffer message.
[[nodiscard]] Event decode_event(std::string_view message);

}  // namespace troupe
