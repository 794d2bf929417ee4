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

/// Tells readers of the lines where a resumed run starts. Returns whether it does: a run that was
/// killed before its first checkpoint starts again at 0 beside what it wrote.
bool begin_session(JsonLines& lines, std::optional<std::int64_t> first_step, WallTime now) {
  if (!first_step || (*first_step == 0 && !lines.had_content())) return false;
  lines.append({{"step", *first_step}, {"session_start", true}, {"time", now}});
  return true;
}

}  // namespace

SummaryWriter::SummaryWriter(std::string directory, std::optional<std::int64_t> first_step, Now now)
    : directory_(std::move(directory)), first_step_(first_step), now_(std::move(now)) {
  make_directory(directory_);
}

void SummaryWriter::write(std::int64_t step, const std::vector<Scalar>& scalars) {
  if (scalars.empty()) return;
  const WallTime now = open();
  std::vector<Scalar> shown = scalars;
  ordered_json line = begin_line(step, now);
  for (Scalar& scalar : shown) {
    scalar.tag = to_utf8(scalar.tag);
    line[key_of(scalar.tag)] = scalar.value;
  }
  events_->write(encode_scalars(step, shown, now));
  lines_->append(line);
}

void SummaryWriter::write_text(std::int64_t step, const std::string& tag,
                               const std::string& value) {
  const WallTime now = open();
  const std::string shown_tag = to_utf8(tag);
  const std::string shown_value = to_utf8(value);
  ordered_json line = begin_line(step, now);
  line[key_of(shown_tag)] = shown_value;
  events_->write(encode_text(step, shown_tag, shown_value, now));
  lines_->append(line);
}

void SummaryWriter::write_histogram(std::int64_t step, const std::string& tag,
                                    const Histogram& histogram) {
  if (histogram.edges.empty()) return;
  const WallTime now = open();
  if (!histograms_) {
    histograms_.emplace(directory_ + "/" + kHistogramsName);
    begin_session(*histograms_, first_step_, now);
  }
  const std::string shown_tag = to_utf8(tag);
  ordered_json line = begin_line(step, now);
  line["tag"] = shown_tag;
  line["edges"] = histogram.edges;
  line["counts"] = histogram.counts;
  line["sum"] = histogram.sum;
  line["sum_of_squares"] = histogram.sum_of_squares;
  if (histogram.not_finite > 0) line["not_finite"] = histogram.not_finite;
  events_->write(encode_histogram(step, shown_tag, histogram, now));
  histograms_->append(line);
}

void SummaryWriter::write_image(std::int64_t step, const std::string& tag, const std::string& png) {
  const auto size = png_size(png);
  if (!size || png.size() > kMostImageBytes) {
    throw ConfigError(text("the image \"", tag, "\", ", png.size(), " bytes, is ",
                           size ? "larger than 16 MiB." : "not a PNG file."),
                      "give the bytes of a PNG file of at most 16 MiB.");
  }
  const WallTime now = open();
  events_->write(encode_image(step, to_utf8(tag), png, *size, now));
}

WallTime SummaryWriter::open() {
  const WallTime now = now_();
  if (events_) return now;
  lines_.emplace(directory_ + "/" + kLinesName);
  auto events = std::make_unique<EventFile>(directory_, now);
  if (begin_session(*lines_, first_step_, now))
    events->write(encode_session_start(*first_step_, now));
  events_ = std::move(events);
  return now;
}

}  // namespace troupe
