#include "estimator/export/exporter.h"

#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "estimator/export/export_directory.h"
#include "estimator/export/exporter_parts.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

class LatestExporter final : public Exporter {
 public:
  LatestExporter(std::string name, std::optional<int> keep, detail::ExporterWorld world)
      : name_(std::move(name)), keep_(keep), world_(std::move(world)) {
    detail::check_exporter(name_, keep_);
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  std::optional<std::string> offer(const ExportOffer& offer) override {
    std::string path = detail::publish_offer(name_, offer, world_);
    if (keep_) collect_old_exports(offer.export_directory, *keep_);
    return path;
  }

 private:
  std::string name_;
  std::optional<int> keep_;
  detail::ExporterWorld world_;
};

class FinalExporter final : public Exporter {
 public:
  FinalExporter(std::string name, detail::ExporterWorld world)
      : name_(std::move(name)), world_(std::move(world)) {
    detail::check_exporter(name_, std::nullopt);
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  std::optional<std::string> offer(const ExportOffer& offer) override {
    if (!offer.is_final) return std::nullopt;
    return detail::publish_offer(name_, offer, world_);
  }

 private:
  std::string name_;
  detail::ExporterWorld world_;
};

/// A number beats NaN, NaN beats nothing.
template <class Beats>
IsBetter by_metric(std::string metric, Beats beats) {
  return [metric = std::move(metric), beats](const Evaluation& best, const Evaluation& current) {
    const double old_value = best.at(metric);
    const double new_value = current.at(metric);
    return beats(new_value, old_value) || (std::isnan(old_value) && !std::isnan(new_value));
  };
}

}  // namespace

std::shared_ptr<Exporter> make_latest_exporter(std::string name, std::optional<int> keep) {
  return detail::make_latest(std::move(name), keep, {});
}

std::shared_ptr<Exporter> make_final_exporter(std::string name) {
  return detail::make_final(std::move(name), {});
}

IsBetter smaller(std::string metric) {
  return by_metric(std::move(metric), [](double a, double b) { return a < b; });
}

IsBetter larger(std::string metric) {
  return by_metric(std::move(metric), [](double a, double b) { return a > b; });
}

void validate(const Exporters& exporters) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < exporters.size(); ++i) {
    if (!exporters[i]) {
      throw ConfigError(text("the exporter at place ", i, " is null."),
                        "make it with make_latest_exporter, make_final_exporter, "
                        "make_best_exporter or a class of your own.");
    }
    const std::string& name = exporters[i]->name();
    detail::check_exporter(name, std::nullopt);
    if (!names.insert(name).second) {
      throw ConfigError(text("two exporters are named '", name, "'."),
                        "give each its own name: their exports go to directories of that name.");
    }
  }
}

std::shared_ptr<Exporter> detail::make_latest(std::string name, std::optional<int> keep,
                                              ExporterWorld world) {
  return std::make_shared<LatestExporter>(std::move(name), keep, std::move(world));
}

std::shared_ptr<Exporter> detail::make_final(std::string name, ExporterWorld world) {
  return std::make_shared<FinalExporter>(std::move(name), std::move(world));
}

void detail::check_exporter(const std::string& name, std::optional<int> keep) {
  if (!is_file_name(name)) {
    throw ConfigError(text("'", name, "' cannot be the name of an exporter: it names a directory."),
                      "use at most 128 letters, digits, '.', '_' and '-', no '.' in front.");
  }
  if (keep && *keep <= 0) {
    throw ConfigError(text("the exporter '", name, "' is to keep ", *keep, " exports."),
                      "give a positive number, or std::nullopt to keep all.");
  }
}

std::string detail::publish_offer(const std::string& exporter, const ExportOffer& offer,
                                  const ExporterWorld& world) {
  std::string path =
      publish_export(offer.export_directory, offer.write_model, world.now, *world.sleeper);
  log_info("exporter '", exporter, "': step ", offer.evaluation.global_step, " is in '", path, "'");
  return path;
}

}  // namespace troupe
