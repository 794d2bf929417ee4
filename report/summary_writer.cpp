#include "troupe/report/summary_writer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMostImageBytes = std::size_t{16} << 20;

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

constexpr std::size_t kToldFiles = 3;  // as many leaders may be lost one after the other

/// Tells readers of the lines where a resumed run starts. Returns whether it does: a run that was
/// killed before its first checkpoint starts again at 0 beside what it wrote.
bool begin_session_of(JsonLines& lines, std::optional<std::int64_t> first_step, WallTime now,
                      bool again = false) {
  if (!first_step || (*first_step == 0 && !lines.had_content())) return false;
  const ordered_json line = {{"step", *first_step}, {"session_start", true}, {"time", now}};
  if (!again || !lines.has_told(line)) lines.append(line);
  return true;
}

using EventKey = std::pair<std::int64_t, std::vector<std::string>>;

/// A session's start has no tags.
EventKey event_key(const std::string& message) {
  Event event = decode_event(message);
  return {event.step, std::move(event.tags)};
}

}  // namespace

SummaryWriter::SummaryWriter(std::string directory, std::optional<std::int64_t> first_step, Now now)
    : directory_(std::move(directory)), first_step_(first_step), now_(std::move(now)) {}

bool SummaryWriter::has_lines() const {
  std::error_code none;
  const auto size = fs::file_size(directory_ + "/" + kLinesName, none);
  return !none && size > 0;
}

void SummaryWriter::begin_session(std::int64_t first_step, bool again) {
  first_step_.reset();
  const WallTime now = now_();
  open_lines(now);
  if (begin_session_of(*lines_, first_step, now, again))
    write_event(encode_session_start(first_step, now), again);
  const std::string histograms = directory_ + "/" + kHistogramsName;
  if (!fs::exists(histograms)) return;
  histograms_.emplace(histograms);
  begin_session_of(*histograms_, first_step, now, again);
}

/// Before the line that belongs to it: what has a line has its event.
void SummaryWriter::write_event(const std::string& message, bool again) {
  if (again) {
    if (!told_) {
      told_.emplace();
      std::vector<std::string> files = list_event_files(directory_);
      if (events_) files.pop_back();  // this one's own
      if (files.size() > kToldFiles)
        files.erase(files.begin(), files.end() - static_cast<std::ptrdiff_t>(kToldFiles));
      for (const std::string& name : files) {
        RecordReader reader(directory_ + "/" + name);
        for (std::string record; reader.next(record);) told_->insert(event_key(record));
      }
    }
    const auto found = told_->find(event_key(message));
    if (found != told_->end()) return void(told_->erase(found));
  }
  open_events();
  events_->write(message);
}

void SummaryWriter::write(std::int64_t step, const std::vector<Scalar>& scalars, bool again) {
  if (scalars.empty()) return;
  const WallTime now = now_();
  std::vector<Scalar> shown = scalars;
  ordered_json line = begin_line(step, now);
  for (Scalar& scalar : shown) {
    scalar.tag = to_utf8(scalar.tag);
    line[key_of(scalar.tag)] = scalar.value;
  }
  open_lines(now);
  write_event(encode_scalars(step, shown, now), again);
  if (!again || !lines_->has_told(line)) lines_->append(line);
}

void SummaryWriter::write_text(std::int64_t step, const std::string& tag, const std::string& value,
                               bool again) {
  const WallTime now = now_();
  open_lines(now);
  const std::string shown_tag = to_utf8(tag);
  const std::string shown_value = to_utf8(value);
  ordered_json line = begin_line(step, now);
  line[key_of(shown_tag)] = shown_value;
  write_event(encode_text(step, shown_tag, shown_value, now), again);
  if (!again || !lines_->has_told(line)) lines_->append(line);
}

void SummaryWriter::write_histogram(std::int64_t step, const std::string& tag,
                                    const Histogram& histogram, bool again) {
  if (histogram.edges.empty()) return;
  const WallTime now = now_();
  open_lines(now);
  if (!histograms_) {
    histograms_.emplace(directory_ + "/" + kHistogramsName);
    begin_session_of(*histograms_, first_step_, now);
  }
  const std::string shown_tag = to_utf8(tag);
  ordered_json line = begin_line(step, now);
  line["tag"] = shown_tag;
  line["edges"] = histogram.edges;
  line["counts"] = histogram.counts;
  line["sum"] = histogram.sum;
  line["sum_of_squares"] = histogram.sum_of_squares;
  if (histogram.not_finite > 0) line["not_finite"] = histogram.not_finite;
  write_event(encode_histogram(step, shown_tag, histogram, now), again);
  if (!again || !histograms_->has_told(line)) histograms_->append(line);
}

void SummaryWriter::write_image(std::int64_t step, const std::string& tag, const std::string& png) {
  const auto size = png_size(png);
  if (!size || png.size() > kMostImageBytes) {
    throw ConfigError(text("the image \"", tag, "\", ", png.size(), " bytes, is ",
                           size ? "larger than 16 MiB." : "not a PNG file."),
                      "give the bytes of a PNG file of at most 16 MiB.");
  }
  const WallTime now = now_();
  open_lines(now);
  write_event(encode_image(step, to_utf8(tag), png, *size, now), /*again=*/false);
}

void SummaryWriter::open_lines(WallTime now) {
  if (lines_) return;
  make_directory(directory_);
  lines_.emplace(directory_ + "/" + kLinesName);
  if (begin_session_of(*lines_, first_step_, now))
    write_event(encode_session_start(*first_step_, now), /*again=*/false);
}

void SummaryWriter::open_events() {
  if (!events_) events_ = std::make_unique<EventFile>(directory_, now_());
}

}  // namespace troupe
