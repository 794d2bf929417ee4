#include "troupe/train/evaluation/finished_marker.h"

#include <nlohmann/json.hpp>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kMarkerFormat = "troupe-finished";
constexpr int kMarkerVersion = 1;
constexpr const char* kMarkerTemporaryName = ".troupe-finished.tmp";
constexpr std::uint64_t kMaxMarkerBytes = std::uint64_t{64} << 10;

[[noreturn]] void refuse(const std::string& shown, const std::string& what) {
  throw CheckpointError(text("'", shown, "' ", what, "."), "remove that file.");
}

json number_or_null(const std::optional<std::int64_t>& number) {
  return number ? json(*number) : json();
}

/// The count at `key`. Throws: CheckpointError if there is none, or it is below `lowest`.
std::int64_t read_count(const json& object, const char* key, std::int64_t lowest,
                        const std::string& shown) {
  const json value = object.value(key, json());
  // A number above the signed range comes out below 0.
  if (!value.is_number_integer() || value.get<std::int64_t>() < lowest) {
    refuse(shown, text("has no valid '", key, "'"));
  }
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> read_goal(const json& goal, const char* key, const std::string& shown) {
  // "No such goal" is said with null: a key that is missing is damage.
  if (goal.contains(key) && goal[key].is_null()) return std::nullopt;
  return read_count(goal, key, 1, shown);
}

Finished parse(const json& document, const std::string& shown) {
  if (!has_format(document, kMarkerFormat, kMarkerVersion)) {
    refuse(shown, text("is no finished marker of version ", kMarkerVersion));
  }
  const json goal = document.value("goal", json());
  const json reason = document.value("reason", json());
  if (!goal.is_object() || !reason.is_string()) refuse(shown, "has no valid 'goal' and 'reason'");
  Finished finished;
  finished.step = read_count(document, "step", 0, shown);
  finished.goal = {read_goal(goal, "max_steps", shown), read_goal(goal, "epochs", shown)};
  finished.reason = reason.get<std::string>();
  return finished;
}

}  // namespace

bool operator==(const TrainingGoal& a, const TrainingGoal& b) {
  return a.max_steps == b.max_steps && a.epochs == b.epochs;
}

void write_finished(FileSystem& files, const Finished& finished) {
  const json document = {{"format", kMarkerFormat},
                         {"version", kMarkerVersion},
                         {"step", finished.step},
                         {"goal",
                          {{"max_steps", number_or_null(finished.goal.max_steps)},
                           {"epochs", number_or_null(finished.goal.epochs)}}},
                         {"reason", finished.reason}};
  const std::string content = exact_json(document, "the finished marker") + "\n";
  if (content.size() > kMaxMarkerBytes) {
    throw CheckpointError(text("the finished marker has ", content.size(), " bytes; at most ",
                               kMaxMarkerBytes, " would be read back."),
                          "give a shorter reason for the end of training.");
  }
  replace_file(files, kFinishedName, kMarkerTemporaryName, content);
}

std::optional<Finished> read_finished(FileSystem& files) {
  try {
    if (!files.status(kFinishedName)) return std::nullopt;
    const std::string shown = files.shown(kFinishedName);
    return parse(parse_strict_json(files.read_file(kFinishedName, kMaxMarkerBytes), shown), shown);
  } catch (const CheckpointError& error) {
    // It can only end the evaluator early or late; what was trained and evaluated stands.
    log_warning("the finished marker is ignored: ", error.cause());
    return std::nullopt;
  }
}

void clear_finished(FileSystem& files) {
  if (!files.status(kFinishedName)) return;
  files.remove_file(kFinishedName);
  files.sync_directory("");
}

bool WatchedFile::has_changed() {
  std::string content;
  try {
    if (files_.status("") && files_.status(name_)) {
      const auto bytes = files_.read_file(name_, max_bytes_);
      content.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  } catch (const CheckpointError&) {  // replaced or removed at this moment: the next look tells
  }
  if (content == content_) return false;
  content_ = std::move(content);
  return true;
}

MarkerReader::MarkerReader(FileSystem& files, const Clock& clock)
    : files_(files), clock_(clock), file_(files, kFinishedName, kMaxMarkerBytes) {}

std::optional<Finished> MarkerReader::read() {
  if (file_.has_changed()) {
    marker_ = file_.content().empty() ? std::nullopt : read_finished(files_);
  }
  if (!first_look_) {
    first_look_ = clock_.now();
    old_ = file_.content();
  }
  const bool fresh = file_.content() != old_ || clock_.now() - *first_look_ >= kGrace;
  return fresh ? marker_ : std::nullopt;
}

}  // namespace troupe
