// GlooGroup: the same all-reduce by LibTorch's own means, c10d over Gloo, to compare with. The only
// place that knows c10d; a LibTorch built without Gloo, or without its headers, gives no group.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "troupe/core/span.h"

namespace troupe::bench {

class GlooGroup {
 public:
  /// Meets the other ranks over 127.0.0.1, by way of a file that all of them can open and that does
  /// not exist before. Null when has_gloo() is false.
  /// Collective: yes.  Blocks: at most `limit`.  Throws: c10::Error, std::runtime_error.
  [[nodiscard]] static std::unique_ptr<GlooGroup> make(int rank, int world_size,
                                                       const std::string& store_file,
                                                       std::chrono::milliseconds limit);
  ~GlooGroup();
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  /// Sums `values` over all ranks, in place.  Collective: yes.  Blocks: at most `limit` of make().
  void all_reduce(Span<float> values);

 private:
  class Impl;
  explicit GlooGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] bool has_gloo();
/// "through c10d of LibTorch 1.13.0", or why there is none.
[[nodiscard]] std::string gloo_status();

}  // namespace troupe::bench
