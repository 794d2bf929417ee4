// EpochReports: what the steps of an epoch add up to, and what all of them came to.
#pragma once

#include <cstdint>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

class EpochReports {
 public:
  /// How much of an epoch was read when it ends.
  enum class Extent {
    part,      // training ends here, and a later run continues: sums and position stay
    left,      // the loop has left it: it is over all the same
    complete,  // every step
  };

  /// `strategy`, `state` and `clock` outlive this object.
  EpochReports(Strategy& strategy, TrainState& state, const Clock& clock)
      : strategy_(strategy), state_(state), clock_(clock) {}

  /// From here on the epoch's time counts. Its sums may have begun before: in the state.
  void begin(std::int64_t epoch);
  void add(const std::vector<StepResult>& results, std::int64_t examples);
  /// Of the epoch under way, or the one that was closed last. Its time is not training's.
  void validated(const Report& report);
  /// Reduces the report of the epoch under way, if any; unless it is a part, moves the state's
  /// position to the next epoch. `unless_complete`: what it is where steps are missing.
  /// Collective: yes.
  void close(Extent unless_complete);
  /// Nothing of the epoch is to come.
  void leave() { stage_ = Stage::none; }

  [[nodiscard]] bool is_begun() const { return stage_ != Stage::none; }  // and not left
  /// Whether a resumed run has to report an epoch whose last step is taken: who took it may have
  /// been lost before it did.
  [[nodiscard]] bool is_untold() const {
    return !has_begun_ && state_.step > 0 && state_.epoch_loss.examples() > 0;
  }
  /// Whether all steps of the epoch are taken.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  /// The last validation of this epoch; null: none.
  [[nodiscard]] const Report* validation() const;
  [[nodiscard]] History& history() { return history_; }

 private:
  enum class Stage { none, open, closed };

  Strategy& strategy_;
  TrainState& state_;
  const Clock& clock_;
  Stage stage_ = Stage::none;
  Extent extent_ = Extent::part;  // where it is closed
  std::int64_t epoch_ = 0;
  Clock::TimePoint begun_at_;
  double validating_seconds_ = 0;  // within the epoch
  bool validated_ = false;
  bool has_begun_ = false;  // an epoch, in this run
  History history_;
};

}  // namespace troupe::detail
