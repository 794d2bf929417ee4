#include "troupe/report/status/metrics_text.h"

#include <cmath>
#include <string_view>

#include "troupe/core/numbers.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/version.h"

namespace troupe::detail {
namespace {

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return number_text(value);
}

/// Names are the hooks' own: the format wants UTF-8, and three characters written otherwise.
std::string label_text(const std::string& name) {
  std::string escaped;
  for (const char c : to_utf8(name)) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

class MetricsText {
 public:
  /// Samples of this metric follow.
  MetricsText& metric(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
    return *this;
  }
  void sample(double value) { text_ += name_ + " " + value_text(value) + "\n"; }
  void sample(const char* label, const std::string& of, double value) {
    text_ += name_ + "{" + label + "=\"" + label_text(of) + "\"} " + value_text(value) + "\n";
  }
  void samples(const NamedValues& values) {
    for (const auto& [name, value] : values) sample("name", name, value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

void add_pace(MetricsText& out, const Progress& now) {
  const auto real = [](std::int64_t whole) { return static_cast<double>(whole); };
  out.metric("troupe_step", "gauge", "Optimiser updates so far, over the whole training.")
      .sample(real(now.step));
  out.metric("troupe_last_step", "gauge",
             "The step that training ends at, if nothing ends it before; 0: unknown.")
      .sample(real(now.total_steps));
  out.metric("troupe_epoch", "gauge", "The pass over the training examples under way, from 0.")
      .sample(real(now.epoch));
  out.metric("troupe_steps_total", "counter", "Optimiser updates since this process started.")
      .sample(real(std::max<std::int64_t>(now.step - now.first_step, 0)));
  out.metric("troupe_examples_total", "counter",
             "Training examples since this process started, over all workers.")
      .sample(real(now.examples));
  out.metric("troupe_steps_per_second", "gauge", "Steps per second, over the last seconds.")
      .sample(now.steps_per_second);
  out.metric("troupe_examples_per_second", "gauge",
             "Training examples per second of all workers, over the last seconds.")
      .sample(now.examples_per_second);
}

}  // namespace

std::string metrics_text(const Progress& progress, int workers) {
  MetricsText out;
  out.metric("troupe_build_info", "gauge", "The version of Troupe, as a label.")
      .sample("version", kVersion, 1);
  out.metric("troupe_workers", "gauge", "Worker processes that train.").sample(workers);
  out.metric("troupe_activity", "gauge", "1 for what the chief does now, 0 for the others.");
  const std::string_view now = Progress::kActivities[static_cast<int>(progress.activity)];
  for (const char* name : Progress::kActivities) out.sample("activity", name, name == now ? 1 : 0);
  add_pace(out, progress);
  if (progress.learning_rate) {
    out.metric("troupe_learning_rate", "gauge", "Of the first optimiser's first group.")
        .sample(*progress.learning_rate);
  }
  if (!progress.losses.empty()) {
    out.metric("troupe_loss", "gauge", "Losses of the last logged step, over all workers.")
        .samples(progress.losses);
  }
  if (!progress.validation.empty()) {
    out.metric("troupe_validation", "gauge", "Losses and metrics of the last validation.")
        .samples(progress.validation);
    out.metric("troupe_validation_step", "gauge", "The step after which it took place.")
        .sample(static_cast<double>(progress.validation_step));
  }
  if (!progress.waiting.empty()) {
    out.metric("troupe_waiting_share", "gauge",
               "The share of the time for which a worker waited for the slowest one of each step.");
    for (const auto& [task, share] : progress.waiting) out.sample("task", task, share);
  }
  return out.take();
}

}  // namespace troupe::detail
