// RunRecord: what training writes into the run's journal (report/run_journal.h): how it was
// started, what was saved, who was lost, how it ended. The leader of a run with a model directory
// writes; those that may lead keep it (report/outbox.h). A journal that cannot be written ends no
// training: it warns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/run_origin.h"
#include "troupe/core/options/train_options.h"
#include "troupe/hooks/report.h"
#include "troupe/report/outbox.h"
#include "troupe/report/run_journal.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

class RunRecord {
 public:
  /// `options` and `outbox` outlive it.
  RunRecord(Strategy& strategy, const TrainOptions& options, Outbox& outbox);

  /// Training begins. `last_step`: where it would end; `unit`: as DistributedDataset::unit(). What
  /// was saved before follows it.
  void start(const Strategy& strategy, const TrainState& state, std::int64_t last_step,
             const std::string& unit);
  /// This worker has joined a run under way, whose start is written.
  void join() { started_ = true; }
  /// A Checkpointer::OnSaved, which writes down each save of the leader; not after the end of this.
  [[nodiscard]] std::function<void(std::int64_t step, std::optional<double> seconds)> on_saved();
  /// `facts`: as Pace::facts, which may name lost workers.
  void ended(std::int64_t step, const History& history, const std::string& facts = "");
  /// The group began another round at this step: who left it and who came, why, and how long it
  /// stood still.
  void changed(std::int64_t step, const GroupChange& change);
  /// Inside of a catch block: of the exception, which may name a lost worker.
  void failed(std::int64_t step) noexcept;
  /// By what is not known, such as an exception of the loop's body.
  void left(std::int64_t step, const std::string& how) noexcept;

 private:
  /// By the leader, which may be another one by then.
  void add(const char* event, const nlohmann::ordered_json& fields);
  void write(const char* event, const nlohmann::ordered_json& fields, bool again = false) noexcept;
  void write_early();
  void write_end(std::int64_t step, const std::string& reason, int exit_code) noexcept;

  const TrainOptions& options_;
  Outbox& outbox_;
  const RunOrigin origin_;
  std::optional<RunJournal> journal_;  // unset: nothing is ever written
  std::atomic<bool> broken_{false};    // it could not be written
  std::vector<std::string> tasks_;
  std::mutex mutex_;  // of the three below, which a save in the background uses
  bool started_ = false;
  std::int64_t saved_ = -1;                    // the last step whose save was told here
  std::vector<nlohmann::ordered_json> early_;  // saves before the start
};

}  // namespace troupe::detail
