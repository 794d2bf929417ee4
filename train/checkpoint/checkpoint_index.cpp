#include "train/checkpoint/checkpoint_index.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kIndexFormat = "troupe-checkpoint-index";
constexpr int kIndexVersion = 1;
constexpr const char* kTemporaryName = ".troupe-index.tmp";
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{16} << 20;

[[noreturn]] void refuse_index(const std::string& shown, const std::string& what) {
  throw CheckpointError(text("'", shown, "' ", what, "."),
                        "remove that file; the checkpoints beside it are found without it.");
}

std::int64_t read_step(const json& name, const std::string& shown) {
  const auto step = name.is_string() ? step_of(name.get<std::string>()) : std::nullopt;
  if (!step) refuse_index(shown, text("names ", name.dump(), ", which is no checkpoint beside it"));
  return *step;
}

}  // namespace

std::optional<CheckpointIndex> read_index(FileSystem& files) {
  if (!files.status(kIndexName)) return std::nullopt;
  const std::string shown = files.shown(kIndexName);
  const json document = parse_strict_json(files.read_file(kIndexName, kMaxIndexBytes), shown);
  if (!document.is_object() || document.value("format", json()) != kIndexFormat ||
      document.value("version", json()) != kIndexVersion) {
    refuse_index(shown, text("is no checkpoint index of version ", kIndexVersion));
  }
  const json retained = document.value("retained", json());
  if (!document.contains("latest") || !retained.is_array()) {
    refuse_index(shown, "has no valid 'latest' and 'retained'");
  }
  CheckpointIndex index;
  index.latest = read_step(document["latest"], shown);
  for (const json& name : retained) index.retained.push_back(read_step(name, shown));
  return index;
}

void write_index(FileSystem& files, const CheckpointIndex& index) {
  json retained = json::array();
  for (const std::int64_t step : index.retained) retained.push_back(checkpoint_name(step));
  const json document = {{"format", kIndexFormat},
                         {"version", kIndexVersion},
                         {"latest", checkpoint_name(index.latest)},
                         {"retained", std::move(retained)}};
  const std::string content = exact_json(document, "the checkpoint index") + "\n";
  replace_file(files, kIndexName, kTemporaryName, content);
}

}  // namespace troupe
