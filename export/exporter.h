// Exporter: decides which evaluated checkpoints become models that other programs open.
//
// An export is a directory <model_dir>/export/<exporter>/<seconds since 1970>/, written beside that
// name as temp-<seconds> and renamed once it is complete: a reader that skips names other than
// numbers never sees a partial model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/train_options.h"
#include "troupe/train/evaluation/evaluation.h"

namespace troupe {

/// An evaluated checkpoint, offered for export.
struct ExportOffer {
  std::string export_directory;      // <model_dir>/export/<exporter's name>; may not exist yet
  std::string checkpoint;            // its directory
  std::string checkpoint_digest;     // digest_of_checkpoint; "": unknown
  Evaluation evaluation;             // of that checkpoint
  std::string evaluation_directory;  // where evaluations of this name write their event files
  bool is_final = false;             // no later checkpoint follows
  /// Writes the model of the checkpoint into an existing, empty directory.
  std::function<void(const std::string& directory)> write_model;
};

class Exporter {
 public:
  virtual ~Exporter() = default;
  /// A file name, unique among the exporters of an evaluation.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// What its exports are written as; unset: what the job's options say.
  [[nodiscard]] virtual std::optional<ExportFormat> format() const { return std::nullopt; }
  /// Called before training, with what it may try with an untrained model, and which leaves no
  /// trace: `write_model` throws ConfigError if ExportOffer::write_model would, `evaluate` returns
  /// an evaluation of two examples. Throws: ConfigError if every offer would fail.
  virtual void check(const std::function<void()>& /*write_model*/,
                     const std::function<Evaluation()>& /*evaluate*/) const {}
  /// Returns the path of the export; unset: this one is not exported, and nothing was touched. The
  /// same checkpoint may be offered again: as the final one, or because a process was killed before
  /// it was on record that this one had decided. Troupe's exporters then export it once.
  /// Throws: EnvironmentError if it cannot be written; what write_model throws.
  virtual std::optional<std::string> offer(const ExportOffer& offer) = 0;
};

/// Exports every time. Keeps the newest `keep`, counted over all runs; unset: all.
/// Throws: ConfigError if keep is not above 0, or the name is not a file name.
[[nodiscard]] std::shared_ptr<Exporter> make_latest_exporter(std::string name,
                                                             std::optional<int> keep = 5);

/// As make_latest_exporter, in ONNX whatever the job's options say.
[[nodiscard]] std::shared_ptr<Exporter> make_onnx_exporter(std::string name = "onnx",
                                                           std::optional<int> keep = 5);

/// Exports only the final checkpoint. Training that ended early has a final one, too; Estimator's
/// FinalExporter ran at max_steps alone.
[[nodiscard]] std::shared_ptr<Exporter> make_final_exporter(std::string name);

/// Whether `current`, the second argument, is better than `best`, the first: by the strictly
/// smaller, strictly larger value of a metric. The function throws: ConfigError listing the
/// existing metrics.
[[nodiscard]] std::function<bool(const Evaluation&, const Evaluation&)> smaller(
    std::string metric = "loss");
[[nodiscard]] std::function<bool(const Evaluation&, const Evaluation&)> larger(std::string metric);
/// The better one, as the metric itself says (Metric::better; losses: the smaller one).
/// The function also throws: ConfigError if that is unknown.
[[nodiscard]] std::function<bool(const Evaluation&, const Evaluation&)> better(std::string metric);

/// Exports each checkpoint that is better than all exported before it, over all runs: the best
/// evaluation is kept in `best.json` beside the exports, each of which has its own. Only if there
/// are exports that say neither are the event files asked, excluding the present evaluation.
/// Throws: ConfigError as make_latest_exporter, or if is_better is null.
[[nodiscard]] std::shared_ptr<Exporter> make_best_exporter(
    std::string name = "best",
    std::function<bool(const Evaluation&, const Evaluation&)> is_better = smaller(),
    std::optional<int> keep = 5);

/// Throws: ConfigError if one is null, or a name is not a file name or occurs twice.
void validate(const std::vector<std::shared_ptr<Exporter>>& exporters);

}  // namespace troupe
