// FinalOps: a function that is run once, when training has ended cleanly; its values are there to
// be read after the run.
#pragma once

#include <functional>
#include <optional>

#include "train/callbacks/named_values.h"
#include "train/callbacks/periodic_action.h"

namespace troupe {

class FinalOps final : public PeriodicAction {
 public:
  using Function = std::function<NamedValues(Replica& replica)>;

  /// `function` is called on every worker with its first replica, so it may start collectives.
  explicit FinalOps(Function function);
  void begin() override { values_.reset(); }
  void after_step(const StepReport& /*report*/, RunControl& /*run*/) override {}
  /// What the function throws is passed on, with a line in the log that says where it was.
  /// Throws: DataError in place of std::out_of_range, which is how data that has ended shows.
  void end(RunControl& run) override;
  /// Unset before the end and where training failed.
  [[nodiscard]] const std::optional<NamedValues>& values() const { return values_; }

 private:
  Function function_;
  std::optional<NamedValues> values_;
};

}  // namespace troupe
