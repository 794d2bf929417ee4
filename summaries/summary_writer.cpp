#include "summaries/summary_writer.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kLinesName = "summaries.jsonl";

/// One line. Numbers that are not finite come out as null: JSON has none.
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// `bytes` with U+FFFD in place of what is not UTF-8: readers refuse a whole event for it, and a
/// path may hold any bytes.
std::string to_utf8(const std::string& bytes) {
  return ordered_json::parse(dump(bytes)).get<std::string>();
}

/// The line's own keys stay its own: a metric that is called "step" becomes "scalar/step".
std::string key_of(const std::string& tag) {
  return tag == "step" || tag == "time" || tag == "session_start" ? "scalar/" + tag : tag;
}

ordered_json begin_line(std::int64_t step, WallTime now) {
  ordered_json line;
  line["step"] = step;
  line["time"] = now;
  return line;
}

void make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && !fs::is_directory(directory, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw EnvironmentError(
        text("the directory '", directory, "' cannot be made: ", error.message(), "."),
        "name a directory below one that this user may write to.");
  }
}

enum class Ending { nothing, whole_line, torn_line };

/// A process that was killed may have left half a line.
Ending ending_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || !in.seekg(-1, std::ios::end)) return Ending::nothing;
  return in.get() == '\n' ? Ending::whole_line : Ending::torn_line;
}

}  // namespace

WallTime system_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

SummaryWriter::SummaryWriter(std::string directory, std::optional<std::int64_t> first_step, Now now)
    : directory_(std::move(directory)), first_step_(first_step), now_(std::move(now)) {
  make_directory(directory_);
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::write(std::int64_t step, const std::vector<Scalar>& scalars) {
  if (scalars.empty()) return;
  const WallTime now = now_();
  open(now);
  std::vector<Scalar> shown = scalars;
  ordered_json line = begin_line(step, now);
  for (Scalar& scalar : shown) {
    scalar.tag = to_utf8(scalar.tag);
    line[key_of(scalar.tag)] = scalar.value;
  }
  append(encode_scalars(step, shown, now), dump(line));
}

void SummaryWriter::write_text(std::int64_t step, const std::string& tag,
                               const std::string& value) {
  const WallTime now = now_();
  open(now);
  const std::string shown_tag = to_utf8(tag);
  const std::string shown_value = to_utf8(value);
  ordered_json line = begin_line(step, now);
  line[key_of(shown_tag)] = shown_value;
  append(encode_text(step, shown_tag, shown_value, now), dump(line));
}

void SummaryWriter::open(WallTime now) {
  if (events_) return;
  const std::string path = directory_ + "/" + kLinesName;
  const Ending ending = ending_of(path);
  lines_.open(path, std::ios::binary | std::ios::app);
  if (!lines_) {
    throw EnvironmentError(text("'", path, "' cannot be written."),
                           "give this user the right to write it, or name another directory.");
  }
  if (ending == Ending::torn_line) lines_ << '\n';
  auto events = std::make_unique<EventFile>(directory_, now);
  // A run that was killed before its first checkpoint starts again at 0 beside what it wrote.
  if (first_step_ && (*first_step_ > 0 || ending != Ending::nothing)) {
    events->write(encode_session_start(*first_step_, now));
    lines_ << dump({{"step", *first_step_}, {"session_start", true}, {"time", now}}) << '\n';
  }
  events_ = std::move(events);
}

void SummaryWriter::append(const std::string& event, const std::string& line) {
  events_->write(event);
  events_->flush();
  lines_ << line << '\n' << std::flush;
  if (!lines_) {
    throw EnvironmentError(text("writing to '", directory_, "/", kLinesName, "' failed."),
                           "look for a full disk.");
  }
}

}  // namespace troupe
