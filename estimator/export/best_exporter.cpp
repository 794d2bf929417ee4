// The best exporter. What is to be beaten comes from `best.json` and from the event files, which
// also know evaluations of a time before the exporter was there, or of a process that ended between
// an export and its record.
#include <utility>

#include "core/error.h"
#include "core/file_system.h"
#include "core/text.h"
#include "estimator/export/best_record.h"
#include "estimator/export/export_directory.h"
#include "estimator/export/exporter.h"
#include "estimator/export/exporter_parts.h"

namespace troupe {
namespace {

class BestExporter final : public Exporter {
 public:
  BestExporter(std::string name, IsBetter is_better, std::optional<int> keep,
               detail::ExporterWorld world)
      : name_(std::move(name)),
        is_better_(std::move(is_better)),
        keep_(keep),
        world_(std::move(world)) {
    detail::check_exporter(name_, keep_);
    if (!is_better_) {
      throw ConfigError(text("the exporter '", name_, "' has no comparison."),
                        "give smaller(\"...\"), larger(\"...\") or a function of your own.");
    }
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  std::optional<std::string> offer(const ExportOffer& offer) override {
    const Evaluation& current = offer.evaluation;
    // Compared with itself first: a metric that is missing is reported also by the first offer.
    static_cast<void>(is_better_(current, current));
    if (directory_ != offer.export_directory) {
      best_ = find_best(offer);
      directory_ = offer.export_directory;
    }
    if (best_ && !is_better_(*best_, current)) return std::nullopt;
    std::string path = detail::publish_offer(name_, offer, world_);
    best_ = current;
    PosixFileSystem files(offer.export_directory);
    write_best(files, {current, path.substr(path.rfind('/') + 1)});
    if (keep_) collect_old_exports(offer.export_directory, *keep_);
    return path;
  }

 private:
  /// Whether `past` has what the comparison needs.
  [[nodiscard]] bool is_comparable(const Evaluation& past) const {
    try {
      static_cast<void>(is_better_(past, past));
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }

  [[nodiscard]] std::optional<Evaluation> find_best(const ExportOffer& offer) const {
    std::optional<Evaluation> best;
    PosixFileSystem files(offer.export_directory);
    if (auto record = read_best(files); record && is_comparable(record->evaluation)) {
      best = std::move(record->evaluation);
    }
    for (const auto& [step, scalars] : world_.read_history(offer.evaluation_directory)) {
      // The present evaluation is in the event files already, and nothing is better than itself;
      // what is later belongs to a run that was given up.
      if (step >= offer.evaluation.global_step) break;
      const Evaluation past{step, {scalars.begin(), scalars.end()}};
      if (is_comparable(past) && (!best || is_better_(*best, past))) best = past;
    }
    return best;
  }

  std::string name_;
  IsBetter is_better_;
  std::optional<int> keep_;
  detail::ExporterWorld world_;
  std::optional<std::string> directory_;  // whose best is known
  std::optional<Evaluation> best_;
};

}  // namespace

std::shared_ptr<Exporter> make_best_exporter(std::string name, IsBetter is_better,
                                             std::optional<int> keep) {
  return detail::make_best(std::move(name), std::move(is_better), keep, {});
}

std::shared_ptr<Exporter> detail::make_best(std::string name, IsBetter is_better,
                                            std::optional<int> keep, ExporterWorld world) {
  return std::make_shared<BestExporter>(std::move(name), std::move(is_better), keep,
                                        std::move(world));
}

}  // namespace troupe
