#include "troupe/export/exporter.h"

#include <chrono>
#include <cmath>
#include <set>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/export/export_directory.h"
#include "troupe/export/exporter_world.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

/// Throws: ConfigError where `name` is no file name, or `keep` not above 0.
void check_exporter(const std::string& name, std::optional<int> keep) {
  if (!is_file_name(name)) {
    throw ConfigError(text("'", name, "' cannot be the name of an exporter: it names a directory."),
                      "use at most 128 letters, digits, '.', '_' and '-', no '.' in front.");
  }
  if (keep && *keep <= 0) {
    throw ConfigError(text("the exporter '", name, "' is to keep ", *keep, " exports."),
                      "give a positive number, or std::nullopt to keep all.");
  }
}

/// Exports every time.
class StockExporter : public Exporter {
 public:
  StockExporter(std::string name, std::optional<int> keep, ExporterWorld world)
      : name_(std::move(name)), keep_(keep), world_(std::move(world)) {
    check_exporter(name_, keep_);
  }

  [[nodiscard]] const std::string& name() const final { return name_; }
  void check(const std::function<void()>& write_model,
             const std::function<Evaluation()>& /*evaluate*/) const override {
    write_model();
  }
  std::optional<std::string> offer(const ExportOffer& offer) final {
    PosixFileSystem files(offer.export_directory);
    // What a process that was lost has exported is not wanted again, and where it is still counts.
    const auto made = made_of(offer, files);
    const bool is_wanted = wants(offer);
    if (!made && !is_wanted) return std::nullopt;
    const std::string path = made ? *made : export_of(offer, files);
    log_info("exporter '", name_, "': step ", offer.evaluation.global_step, " is in '", path, "'",
             made ? " (again)" : "");
    if (!is_wanted) return path;
    published(offer, path, files);
    if (keep_) collect_old_exports(files, *keep_);
    return path;
  }

 private:
  /// The path of the checkpoint's export; unset: it was not exported here.
  [[nodiscard]] static std::optional<std::string> made_of(const ExportOffer& offer,
                                                          FileSystem& files) {
    if (offer.checkpoint_digest.empty()) return std::nullopt;
    for (const std::string& name : exports_in(files)) {
      const auto record = read_export_record(files, name);
      if (record && record->checkpoint_digest == offer.checkpoint_digest) return files.shown(name);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string export_of(const ExportOffer& offer, FileSystem& files) const {
    const ExportRecord record{offer.checkpoint_digest, offer.evaluation};
    const auto write = [&](const std::string& directory) {
      offer.write_model(directory);
      write_export_record(directory, record);
    };
    return publish_export(files, write, world_.now, world_.sleep);
  }

  [[nodiscard]] virtual bool wants(const ExportOffer& /*offer*/) { return true; }
  virtual void published(const ExportOffer& /*offer*/, const std::string& /*path*/,
                         FileSystem& /*files*/) {}

  std::string name_;
  std::optional<int> keep_;
  ExporterWorld world_;
};

class OnnxExporter final : public StockExporter {
 public:
  using StockExporter::StockExporter;
  [[nodiscard]] std::optional<ExportFormat> format() const override { return ExportFormat::onnx; }
};

class FinalExporter final : public StockExporter {
 public:
  using StockExporter::StockExporter;

 private:
  [[nodiscard]] bool wants(const ExportOffer& offer) override { return offer.is_final; }
};

/// What is to be beaten comes from `best.json` and from what the exports themselves say, which also
/// know one of a process that ended before it wrote `best.json`. An evaluation that was not
/// exported is no reason to refuse another.
class BestExporter final : public StockExporter {
 public:
  BestExporter(std::string name,
               std::function<bool(const Evaluation&, const Evaluation&)> is_better,
               std::optional<int> keep, ExporterWorld world)
      : StockExporter(std::move(name), keep, std::move(world)), is_better_(std::move(is_better)) {
    if (!is_better_) {
      throw ConfigError(text("the exporter '", this->name(), "' has no comparison."),
                        "give smaller(\"...\"), larger(\"...\") or a function of your own.");
    }
  }

  /// A metric that is missing is known before training.
  void check(const std::function<void()>& write_model,
             const std::function<Evaluation()>& evaluate) const override {
    StockExporter::check(write_model, evaluate);
    const Evaluation evaluation = evaluate();
    static_cast<void>(is_better_(evaluation, evaluation));
  }

 private:
  [[nodiscard]] bool wants(const ExportOffer& offer) override {
    // Compared with itself first: a metric that is missing is reported also by the first offer.
    static_cast<void>(is_better_(offer.evaluation, offer.evaluation));
    if (directory_ != offer.export_directory) {
      best_ = find_best(offer);
      directory_ = offer.export_directory;
    }
    return !best_ || is_better_(*best_, offer.evaluation);
  }
  void published(const ExportOffer& offer, const std::string& path, FileSystem& files) override {
    write_best(files, {offer.evaluation, path.substr(path.rfind('/') + 1)});
    best_ = offer.evaluation;  // not before: if the record fails, the next offer writes it
  }

  /// Whether `past` has what the comparison needs.
  [[nodiscard]] bool is_comparable(const Evaluation& past) const {
    try {
      static_cast<void>(is_better_(past, past));
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }

  /// `past` becomes the best if it is better, or the first. Returns whether it did.
  bool improve(std::optional<Evaluation>& best, Evaluation past) const {
    if (!is_comparable(past) || (best && !is_better_(*best, past))) return false;
    best = std::move(past);
    return true;
  }

  [[nodiscard]] std::optional<Evaluation> find_best(const ExportOffer& offer) const {
    std::optional<Evaluation> best;
    PosixFileSystem files(offer.export_directory);
    if (auto record = read_best(files)) improve(best, std::move(record->evaluation));
    std::string unrecorded;  // the best, whose process ended before it could write best.json
    for (const std::string& name : exports_in(files)) {
      const auto record = read_export_record(files, name);
      if (record && improve(best, record->evaluation)) unrecorded = name;
    }
    if (!unrecorded.empty()) write_best(files, {*best, unrecorded});
    return best;
  }

  std::function<bool(const Evaluation&, const Evaluation&)> is_better_;
  std::optional<std::string> directory_;  // whose best is known
  std::optional<Evaluation> best_;
};

/// A number beats NaN, NaN beats nothing.
template <class Beats>
std::function<bool(const Evaluation&, const Evaluation&)> by_metric(std::string metric,
                                                                    Beats beats) {
  return [metric = std::move(metric), beats](const Evaluation& best, const Evaluation& current) {
    const double old_value = best.at(metric);
    const double new_value = current.at(metric);
    return beats(new_value, old_value) || (std::isnan(old_value) && !std::isnan(new_value));
  };
}

}  // namespace

std::int64_t wall_seconds() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
}

std::shared_ptr<Exporter> make_latest_exporter(std::string name, std::optional<int> keep,
                                               ExporterWorld world) {
  return std::make_shared<StockExporter>(std::move(name), keep, std::move(world));
}

std::shared_ptr<Exporter> make_latest_exporter(std::string name, std::optional<int> keep) {
  return make_latest_exporter(std::move(name), keep, {});
}

std::shared_ptr<Exporter> make_onnx_exporter(std::string name, std::optional<int> keep) {
  return std::make_shared<OnnxExporter>(std::move(name), keep, ExporterWorld());
}

std::shared_ptr<Exporter> make_final_exporter(std::string name, ExporterWorld world) {
  return std::make_shared<FinalExporter>(std::move(name), std::nullopt, std::move(world));
}

std::shared_ptr<Exporter> make_final_exporter(std::string name) {
  return make_final_exporter(std::move(name), {});
}

std::shared_ptr<Exporter> make_best_exporter(
    std::string name, std::function<bool(const Evaluation&, const Evaluation&)> is_better,
    std::optional<int> keep, ExporterWorld world) {
  return std::make_shared<BestExporter>(std::move(name), std::move(is_better), keep,
                                        std::move(world));
}

std::shared_ptr<Exporter> make_best_exporter(
    std::string name, std::function<bool(const Evaluation&, const Evaluation&)> is_better,
    std::optional<int> keep) {
  return make_best_exporter(std::move(name), std::move(is_better), keep, {});
}

std::function<bool(const Evaluation&, const Evaluation&)> smaller(std::string metric) {
  return by_metric(std::move(metric), [](double a, double b) { return a < b; });
}

std::function<bool(const Evaluation&, const Evaluation&)> larger(std::string metric) {
  return by_metric(std::move(metric), [](double a, double b) { return a > b; });
}

std::function<bool(const Evaluation&, const Evaluation&)> better(std::string metric) {
  // Evaluations that were read from files do not say it; the first one that does says it for all.
  return [metric = std::move(metric), known = std::make_shared<Better>(Better::unknown)](
             const Evaluation& best, const Evaluation& current) {
    static_cast<void>(best.at(metric));
    for (const Evaluation* const each : {&best, &current}) {
      const auto said = each->better.find(metric);
      if (said != each->better.end() && said->second != Better::unknown) *known = said->second;
    }
    if (*known == Better::unknown) {
      throw ConfigError(
          "the best '" + metric +
              "' is wanted, and the metric does not say which of two values is better.",
          "give --best-mode min or max, or let Metric::better of its class say it.");
    }
    return (*known == Better::lower ? smaller(metric) : larger(metric))(best, current);
  };
}

void validate(const std::vector<std::shared_ptr<Exporter>>& exporters) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < exporters.size(); ++i) {
    if (!exporters[i]) {
      throw ConfigError(text("the exporter at place ", i, " is null."),
                        "make it with make_latest_exporter, make_final_exporter, "
                        "make_best_exporter, make_onnx_exporter or a class of your own.");
    }
    const std::string& name = exporters[i]->name();
    check_exporter(name, std::nullopt);
    if (!names.insert(name).second) {
      throw ConfigError(text("two exporters are named '", name, "'."),
                        "give each its own name: their exports go to directories of that name.");
    }
  }
}

}  // namespace troupe
