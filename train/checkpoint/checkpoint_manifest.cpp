#include "troupe/train/checkpoint/checkpoint_manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/sha256.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "troupe-checkpoint";
constexpr std::string_view kNamePrefix = "model.ckpt-";
constexpr std::size_t kMaxFileNameBytes = 128;
constexpr std::size_t kSha256Digits = 64;

[[noreturn]] void refuse(const std::string& shown, const std::string& what) {
  throw CheckpointError(text("'", shown, "' ", what, "."),
                        "the file is damaged or was not written by Troupe; use another "
                        "checkpoint.");
}

/// The value at `key` if `is` finds it good.
template <class Is>
const json& member(const json& object, const char* key, const std::string& shown, const Is& is) {
  if (!object.is_object() || !object.contains(key) || !is(object[key])) {
    refuse(shown, text("has no valid '", key, "'"));
  }
  return object[key];
}

bool is_count(const json& value) {
  return value.is_number_integer() &&
         (value.is_number_unsigned() || value.get<std::int64_t>() >= 0);
}
bool is_int64(const json& value) {
  constexpr auto kMax = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  return value.is_number_integer() &&
         (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kMax);
}
bool is_digest(const json& value) {
  return value.is_string() && value.get<std::string>().size() == kSha256Digits;
}
bool is_object(const json& value) { return value.is_object(); }

json files_of(const CheckpointInfo& info) {
  json files = json::object();
  for (const CheckpointFileInfo& file : info.files) {
    files[file.name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  }
  return files;
}

/// The digest of all but itself, over text that does not depend on white space.
std::string digest_of(json manifest) {
  manifest.erase("sha256");
  return sha256_hex(manifest.dump());
}

constexpr const char* kIndexFormat = "troupe-checkpoint-index";
constexpr int kIndexVersion = 1;
constexpr const char* kTemporaryName = ".troupe-index.tmp";

[[noreturn]] void refuse_index(const std::string& shown, const std::string& what) {
  throw CheckpointError(text("'", shown, "' ", what, "."),
                        "remove that file; the checkpoints beside it are found without it.");
}

std::int64_t read_step(const json& name, const std::string& shown) {
  const auto step = name.is_string() ? step_of(name.get<std::string>()) : std::nullopt;
  if (!step) refuse_index(shown, text("names ", name.dump(), ", which is no checkpoint beside it"));
  return *step;
}

BestCheckpoint read_best(const json& best, const std::string& shown) {
  const bool valid = best.is_object() && best.value("metric", json()).is_string() &&
                     best.value("value", json()).is_number();
  if (!valid) refuse_index(shown, "has no valid 'best'");
  return {read_step(best.value("checkpoint", json()), shown), best["metric"].get<std::string>(),
          best["value"].get<double>()};
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return text(kNamePrefix, step); }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (name.substr(0, kNamePrefix.size()) != kNamePrefix) return std::nullopt;
  const std::string_view digits = name.substr(kNamePrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // The way back catches what is left over, leading zeros and signs.
  if (error != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name[0] != '.' &&
         name != kManifestName && std::all_of(name.begin(), name.end(), is_name_character);
}

bool same_content(const CheckpointInfo& a, const CheckpointInfo& b) {
  return a.extras == b.extras && files_of(a) == files_of(b);
}

std::string write_manifest(const CheckpointInfo& info) {
  json manifest = {
      {"format", kFormat},    {"version", kManifestVersion},   {"troupe", kVersion},
      {"step", info.step},    {"written_at", info.written_at}, {"files", files_of(info)},
      {"extras", info.extras}};
  const std::string checked = exact_json(manifest, "the manifest of the checkpoint");
  manifest["sha256"] = digest_of(json::parse(checked));
  return exact_json(manifest, "the manifest of the checkpoint") + "\n";
}

CheckpointInfo read_manifest(Span<const std::byte> bytes, const std::string& shown) {
  const json manifest = parse_strict_json(bytes, shown);
  const auto is_format = [](const json& value) { return value == kFormat; };
  member(manifest, "format", shown, is_format);
  const json& version = member(manifest, "version", shown, is_int64);
  if (version != kManifestVersion) {
    throw CheckpointError(text("'", shown, "' is of version ", version.dump(),
                               ", this program reads version ", kManifestVersion, "."),
                          "use the Troupe that wrote it, or another checkpoint.");
  }
  if (member(manifest, "sha256", shown, is_digest) != digest_of(manifest)) {
    refuse(shown, "does not match its own digest");
  }
  CheckpointInfo info;
  info.step = member(manifest, "step", shown, is_int64).get<std::int64_t>();
  info.written_at = member(manifest, "written_at", shown, is_int64).get<std::int64_t>();
  info.extras = member(manifest, "extras", shown, [](const json&) { return true; });
  for (const auto& [name, value] : member(manifest, "files", shown, is_object).items()) {
    if (!is_file_name(name)) refuse(shown, text("names the file '", name, "'"));
    info.files.push_back({name, member(value, "bytes", shown, is_count).get<std::uint64_t>(),
                          member(value, "sha256", shown, is_digest).get<std::string>()});
  }
  return info;
}

std::optional<CheckpointIndex> read_index(FileSystem& files) {
  if (!files.status(kIndexName)) return std::nullopt;
  const std::string shown = files.shown(kIndexName);
  const json document = parse_strict_json(files.read_file(kIndexName, kMaxIndexBytes), shown);
  if (!has_format(document, kIndexFormat, kIndexVersion)) {
    refuse_index(shown, text("is no checkpoint index of version ", kIndexVersion));
  }
  const json retained = document.value("retained", json());
  if (!document.contains("latest") || !retained.is_array()) {
    refuse_index(shown, "has no valid 'latest' and 'retained'");
  }
  CheckpointIndex index;
  index.latest = read_step(document["latest"], shown);
  for (const json& name : retained) index.retained.push_back(read_step(name, shown));
  if (document.contains("best")) index.best = read_best(document["best"], shown);
  if (document.contains("keep_after")) {
    if (!is_int64(document["keep_after"])) refuse_index(shown, "has no valid 'keep_after'");
    index.keep_after = document["keep_after"].get<std::int64_t>();
  }
  return index;
}

std::optional<CheckpointIndex> usable_index(FileSystem& files) {
  try {
    return read_index(files);
  } catch (const CheckpointError& error) {
    log_warning("the checkpoint index is not used: ", error.cause());
    return std::nullopt;
  }
}

void write_index(FileSystem& files, const CheckpointIndex& index) {
  json retained = json::array();
  for (const std::int64_t step : index.retained) retained.push_back(checkpoint_name(step));
  json document = {{"format", kIndexFormat},
                   {"version", kIndexVersion},
                   {"latest", checkpoint_name(index.latest)},
                   {"retained", std::move(retained)}};
  if (index.best) {
    document["best"] = {{"checkpoint", checkpoint_name(index.best->step)},
                        {"metric", index.best->metric},
                        {"value", index.best->value}};
  }
  if (index.keep_after) document["keep_after"] = *index.keep_after;
  const std::string content = exact_json(document, "the checkpoint index") + "\n";
  replace_file(files, kIndexName, kTemporaryName, content);
}

}  // namespace troupe
