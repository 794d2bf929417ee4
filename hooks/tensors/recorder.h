// Recorder: what a hook, or a loop, wants to have looked at beside losses and metrics: pictures,
// histograms and texts. TensorBoard shows them (docs/summaries.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

namespace detail {

/// Something that is to be looked at.
struct Recorded {
  struct Picture {
    std::string png;  // a file's bytes
  };
  struct Spread {
    at::Tensor values;  // [n] float32, on the host
  };
  std::string name;
  std::variant<Picture, Spread, std::string> value;
};

/// Shapes and errors: as Recorder::log_image, and log_histogram.
[[nodiscard]] Recorded::Picture picture_of(const std::string& name, const at::Tensor& image);
[[nodiscard]] Recorded::Spread spread_of(const std::string& name, const at::Tensor& values);

}  // namespace detail

/// Keeps what hooks and loop record until the step, or the pass over validation data, is over. Of
/// one name the first value is kept, as "validation/<name>" in such a pass; and only on the chief's
/// first replica, in a step's first part, of a run that writes summaries: everywhere else these
/// calls do nothing.
class Recorder {
 public:
  /// Shapes: `image` [H, W], [1, H, W] or [3, H, W], on any device: bytes, truth values, or real
  /// numbers from 0, black, to 1; what is beyond is cut off, and NaN is black.
  /// Blocks: until it is on the host.  Throws: ConfigError for another, or one without pixels.
  void log_image(const std::string& name, const at::Tensor& image);
  /// How the finite values of a tensor of numbers are spread.
  /// Blocks: as log_image.  Throws: ConfigError for a tensor of complex numbers.
  void log_histogram(const std::string& name, const at::Tensor& values);
  void log_text(const std::string& name, const std::string& text);
  /// `png`: the bytes of a PNG file, at most 16 MiB.
  void log_image(const std::string& name, const std::string& png);
  /// Whether a value of this name would be kept: for who draws it only then.
  [[nodiscard]] bool wants(const std::string& name) const;

  // For the framework.

  /// From now on what is recorded here will be taken.
  void open() { is_open_ = true; }
  /// Whether to keep what follows, and what comes before its names.
  void listen(bool listens, std::string prefix) {
    listens_ = listens;
    prefix_ = std::move(prefix);
  }
  /// What was kept since the last call.
  [[nodiscard]] std::vector<detail::Recorded> take() { return std::exchange(values_, {}); }

 private:
  void keep(const std::string& name, decltype(detail::Recorded::value) value);

  std::vector<detail::Recorded> values_;
  std::string prefix_;    // of names, by phase
  bool is_open_ = false;  // somebody looks at what this replica records
  bool listens_ = false;  // in this part
};

}  // namespace troupe
