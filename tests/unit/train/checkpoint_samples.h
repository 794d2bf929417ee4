// Checkpoints for tests: small, and different at each step, so that a mix of two is noticed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/text.h"
#include "troupe/train/checkpoint/checkpoint_writer.h"

namespace troupe::testing {

inline std::string sample_content(const std::string& name, std::int64_t step) {
  return text(name, " of step ", step, std::string(100, static_cast<char>('a' + step % 26)));
}

inline CheckpointFile sample_file(const std::string& name, const std::string& content) {
  return {name, [content](const ByteSink& sink) {
            sink(as_bytes(Span<const char>(content.data(), content.size())));
          }};
}

inline std::vector<CheckpointFile> sample_files(std::int64_t step) {
  return {sample_file("model.safetensors", sample_content("model", step)),
          sample_file("state.safetensors", sample_content("state", step))};
}

inline CheckpointInfo save_sample(CheckpointWriter& writer, std::int64_t step) {
  return writer.save(step, sample_files(step), {{"step", step}});
}

inline LockOwner sample_owner() { return {"machine-a", 7, 1}; }

/// The step of the newest good checkpoint; unset: none. A checkpoint that passes as good and is not
/// what was saved gives -1.
inline std::optional<std::int64_t> newest(FileSystem& files) {
  CheckpointReader reader(files);
  const auto info = reader.latest();
  if (!info) return std::nullopt;
  const auto content = [&](const std::string& name) {
    const auto bytes = reader.read(*info, name);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const bool whole = info->files.size() == 2 && info->extras.at("step") == info->step &&
                     content("model.safetensors") == sample_content("model", info->step) &&
                     content("state.safetensors") == sample_content("state", info->step);
  return whole ? info->step : -1;
}

}  // namespace troupe::testing
