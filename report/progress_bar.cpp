#include "troupe/report/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "troupe/core/text.h"

namespace troupe {
namespace {

using State = ProcessStatus::State;

enum class Look { plain, dim, alarming };

/// A part of a line. Of those of one line, the ones with the highest rank are left out first.
struct Field {
  std::string words;
  int rank = 0;
  Look look = Look::plain;
};

constexpr std::int64_t kMostCells = 30;
constexpr std::int64_t kFewestCells = 5;
constexpr double kMostSeconds = 100.0 * 24 * 3600;  // whoever needs longer sees no end

std::string colored(const std::string& words, Look look) {
  if (look == Look::plain) return words;
  return text(look == Look::dim ? "\033[2m" : "\033[31m", words, "\033[0m");
}

/// In ASCII, one character for each, so that the width is known.
std::string shown(const std::string& name) {
  std::string ascii;
  for (const char c : name) {
    const auto octet = static_cast<unsigned char>(c);
    if ((octet & 0xc0U) == 0x80U) continue;  // the rest of a character of UTF-8
    ascii += octet >= 0x20 && octet < 0x7f ? c : '?';
  }
  return ascii;
}

std::string shown(double value, int digits = 4) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(digits);
  out << value;
  return out.str();
}

/// "3512", "0.42"
std::string shown_rate(double rate) {
  return rate >= 100 && rate < 1e7 ? text(static_cast<std::int64_t>(std::lround(rate)))
                                   : shown(rate, 2);
}

/// "0:04", "12:31:00"
std::string shown_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  const auto two = [](std::int64_t number) { return text(number < 10 ? "0" : "", number); };
  const std::string minutes = text(whole / 60 % 60);
  if (whole < 3600) return text(minutes, ":", two(whole % 60));
  return text(whole / 3600, ":", two(whole / 60 % 60), ":", two(whole % 60));
}

std::size_t width_of(const std::vector<Field>& fields) {
  std::size_t width = fields.empty() ? 0 : 2 * (fields.size() - 1);
  for (const Field& field : fields) width += field.words.size();
  return width;
}

/// The last column stays free: some terminals wrap as soon as it is written.
bool fits(const std::vector<Field>& fields, const BlockStyle& style) {
  return static_cast<std::int64_t>(width_of(fields)) < style.columns;
}

std::string joined(const std::vector<Field>& fields, const BlockStyle& style) {
  return join(fields, ", ", [&](const Field& field) {
    return style.colored ? colored(field.words, field.look) : field.words;
  });
}

/// Those that fit; empty where none does.
std::string fitted(std::vector<Field> fields, const BlockStyle& style) {
  while (!fields.empty() && !fits(fields, style)) {
    // Of those that are worth the same, the last.
    const auto dropped =
        std::max_element(fields.rbegin(), fields.rend(),
                         [](const Field& a, const Field& b) { return a.rank < b.rank; });
    fields.erase(std::next(dropped).base());
  }
  return joined(fields, style);
}

std::string bar_line(const Progress& progress, const BlockStyle& style) {
  if (progress.total_steps <= 0) {
    if (progress.step <= 0) return "";
    return fitted(
        {{text("step ", progress.step, ", ", shown(progress.unit), " ", progress.epoch + 1)}},
        style);
  }
  const std::int64_t step = std::min(progress.step, progress.total_steps);
  const double share = static_cast<double>(step) / static_cast<double>(progress.total_steps);
  const double left = static_cast<double>(progress.total_steps - step) / progress.steps_per_second;
  std::string end;
  if (progress.activity == Progress::Activity::validating)
    end = ", validating";
  else if (progress.activity == Progress::Activity::training && left > 0 && left < kMostSeconds)
    end = text(", ETA ", shown_duration(left));
  const std::string counts = text(progress.step, "/", progress.total_steps);
  for (const std::string& words :
       {text("step ", progress.step, " of ", progress.total_steps, ", ", shown(progress.unit), " ",
             std::max<std::int64_t>(progress.epoch, 0) + 1, end),
        text("step ", progress.step, " of ", progress.total_steps, end), counts + end, counts}) {
    const std::int64_t room = style.columns - 4 - static_cast<std::int64_t>(words.size());
    if (room < (words[0] == 's' ? 2 * kFewestCells : kFewestCells)) continue;
    const std::int64_t cells = std::min(kMostCells, room);
    const auto done = std::min(cells, std::lround(share * static_cast<double>(cells)));
    const std::string bar = text('[', std::string(static_cast<std::size_t>(done), '='),
                                 std::string(static_cast<std::size_t>(cells - done), ' '), ']');
    return text(style.colored ? colored(bar, Look::dim) : bar, ' ', words);
  }
  return fitted({{counts}}, style);
}

/// "loss 0.0371, 3512 examples/s, learning rate 0.001"; of several losses the first is the dearest.
std::string speed_line(const Progress& progress, const BlockStyle& style) {
  std::vector<Field> fields;
  for (const auto& [name, value] : progress.losses) {
    const int rank = fields.empty() ? 0 : 3;
    fields.push_back({text(shown(name), ' ', shown(value)), rank});
  }
  if (progress.examples_per_second > 0)
    fields.push_back({text(shown_rate(progress.examples_per_second), " examples/s"), 1});
  if (progress.learning_rate)
    fields.push_back({text("learning rate ", shown(*progress.learning_rate)), 2});
  return fitted(std::move(fields), style);
}

std::string validation_line(const Progress& progress, const BlockStyle& style) {
  std::vector<Field> fields;
  for (const auto& [name, value] : progress.validation) {
    fields.push_back({text(shown(name), ' ', shown(value)), static_cast<int>(fields.size())});
  }
  std::string head = text("validation at step ", progress.validation_step, ": ");
  if (static_cast<int>(head.size() + width_of(fields)) >= style.columns) head = "validation: ";
  BlockStyle rest = style;
  rest.columns -= static_cast<int>(head.size());
  const std::string values = fitted(std::move(fields), rest);
  return values.empty() ? "" : head + values;
}

bool is_working(State state) { return state == State::training || state == State::validating; }

const char* word_of(State state) {
  constexpr const char* kWords[] = {"running", "training", "validating", "restarting",
                                    "ended",   "failed",   "lost"};
  return kWords[static_cast<int>(state)];
}

Look look_of(State state) {
  return state == State::lost || state == State::failed ? Look::alarming : Look::plain;
}

Field field_of(const ProcessStatus& process) {
  const std::string doing =
      is_working(process.state) && process.step > 0
          ? text(process.state == State::training ? "" : "validating, ", "step ", process.step)
          : word_of(process.state);
  return {text(shown(process.name), ' ', doing), 0, look_of(process.state)};
}

bool is_worker(const ProcessStatus& process) { return process.name.rfind("worker/", 0) == 0; }

/// From all that is known down to a count of workers that do what most are expected to do now: the
/// first that fits is shown.
std::string process_line(const std::vector<ProcessStatus>& processes, const BlockStyle& style) {
  const bool training = std::any_of(
      processes.begin(), processes.end(),
      [](const ProcessStatus& process) { return is_worker(process) && is_working(process.state); });
  std::size_t workers = 0;
  std::size_t count = 0;
  std::vector<Field> every, beside, named, deviating;
  std::map<State, int> others;
  for (const ProcessStatus& process : processes) {
    const Field field = field_of(process);
    if (!is_worker(process)) {
      (field.look == Look::alarming ? named : beside).push_back(field);
      continue;
    }
    ++workers;
    every.push_back(field);
    if (training ? is_working(process.state) : process.state == State::running) {
      ++count;
    } else {
      deviating.push_back(field);
      ++others[process.state];
    }
  }
  const auto add = [](std::vector<Field>& to, const std::vector<Field>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  add(every, named);
  add(every, beside);
  add(named, deviating);
  const char* const word = training ? "training" : "running";
  std::vector<Field> summary = {{text(count, " of ", workers, " workers ", word)}};
  std::vector<Field> shorter = {{text(count, " of ", workers, ' ', word), -100}};
  std::vector<Field> counted = shorter;
  add(summary, named);
  add(summary, beside);
  add(shorter, named);
  for (const auto& [state, number] : others) {
    counted.push_back(
        {text(number, ' ', word_of(state)), -static_cast<int>(state), look_of(state)});
  }
  for (const auto& fields : {every, summary, shorter})
    if (!fields.empty() && fits(fields, style)) return joined(fields, style);
  return fitted(counted, style);
}

}  // namespace

std::vector<std::string> progress_block(const std::optional<Progress>& progress,
                                        const std::vector<ProcessStatus>& processes,
                                        const BlockStyle& style) {
  std::vector<std::string> lines;
  if (progress) {
    lines = {bar_line(*progress, style), speed_line(*progress, style),
             validation_line(*progress, style)};
  }
  if (!processes.empty()) lines.push_back(process_line(processes, style));
  lines.erase(std::remove(lines.begin(), lines.end(), ""), lines.end());
  return lines;
}

}  // namespace troupe
