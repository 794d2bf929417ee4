#include "estimator/roles/marker_reader.h"

#include <cstddef>

#include "core/error.h"

namespace troupe {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 10;

std::string content_of(FileSystem& files) {
  try {
    if (!files.status("") || !files.status(kFinishedName)) return "";
    const auto bytes = files.read_file(kFinishedName, kMostBytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const CheckpointError&) {
    return "";  // replaced or removed at this moment: the next look tells
  }
}

}  // namespace

bool MarkerReader::has_changed() {
  std::string content = content_of(files_);
  if (first_look_ && content == content_) return false;
  content_ = std::move(content);
  return true;
}

std::optional<Finished> MarkerReader::read() {
  if (has_changed()) marker_ = content_.empty() ? std::nullopt : read_finished(files_);
  if (!first_look_) {
    first_look_ = clock_.now();
    old_ = content_;
  }
  const bool fresh = content_ != old_ || clock_.now() - *first_look_ >= kGrace;
  return fresh ? marker_ : std::nullopt;
}

}  // namespace troupe
