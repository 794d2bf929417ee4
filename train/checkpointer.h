// Checkpointer: when a run is saved and where it goes on. The chief writes; all workers take part.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/clock.h"
#include "train/options.h"
#include "train/run_snapshot.h"
#include "train/stop_signal.h"

namespace troupe {

class Checkpointer {
 public:
  /// Restores the newest good checkpoint of options.model_dir into `state`, or saves the fresh
  /// state as step 0. From here to the end of this object SIGTERM is a request that after_step
  /// answers. All arguments outlive this object. What is thrown on one worker is to be told to the
  /// others (detail::sharing_failure), as train() does. Collective: yes.  Blocks: for files, and as
  /// the strategy's collectives do. Throws: ConfigError (options.resume does not fit what is there,
  /// or the data the checkpoint), CheckpointError, EnvironmentError (another process writes there).
  Checkpointer(Strategy& strategy, TrainState& state, const DataIdentity& data,
               const TrainOptions& options, const Clock& clock);
  ~Checkpointer();

  enum class Step { ordinary, last };
  /// Saves when it is time, after the last step, and when a worker was asked to stop; never twice
  /// for one step.
  /// Collective: yes, after every step.
  /// Throws: Stopped on every rank when any was asked to stop; the state is saved then.
  void after_step(Step step);

 private:
  class Files;

  void resume();
  void save();
  [[nodiscard]] bool is_time() const;

  Strategy& strategy_;
  TrainState& state_;
  const DataIdentity data_;
  const TrainOptions& options_;
  const Clock& clock_;
  std::unique_ptr<Files> files_;  // on the chief
  StopSignal stop_;
  std::optional<std::int64_t> saved_step_;
  Clock::TimePoint saved_at_;
};

}  // namespace troupe
