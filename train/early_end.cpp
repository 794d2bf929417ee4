#include "troupe/train/early_end.h"

#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/pace.h"

namespace troupe::detail {

void EarlyEnd::wish(Wishes& mine, int signal) const {
  ElasticGroup* const group = strategy_.elastic();
  if (group == nullptr) {
    mine.signal = signal;
    return;
  }
  const auto departure = group->departure(signal != 0);
  if (!departure) return;
  if (departure->is_alone)
    mine.quitting = 1;
  else if (departure->cause.empty())
    mine.signal = signal;
  else
    mine.too_few = true;
}

void EarlyEnd::save(Checkpointer& checkpoints, Checkpointer::Save which) const {
  for (;;) {
    checkpoints.save(which);
    checkpoints.wait();
    Wishes mine;
    mine.save_anew = checkpoints.has_lost_chief();
    if (!agree(strategy_, mine).save_anew) return;  // nobody leaves before the chief has saved
    checkpoints.take_over(std::nullopt);
  }
}

void EarlyEnd::end_all(const Wishes& agreed, Checkpointer* checkpoints) const {
  if (checkpoints != nullptr) save(*checkpoints, Checkpointer::Save::stopping);
  const bool saved = checkpoints != nullptr && checkpoints->saves();
  const std::string where = saved ? "; the state is saved in " + options_.model_dir + "." : "";
  if (agreed.too_few) {
    const auto departure = strategy_.elastic()->departure(false);
    const std::string why = departure ? departure->cause : "too few workers are left.";
    throw PeerLost(
        text(why, " Training ended after step ", state_.step, where.empty() ? "." : where),
        "start the run again; with --model-dir it resumes from its newest checkpoint.");
  }
  const std::string cause =
      text(signal_name(agreed.signal), ": all workers stopped after step ", state_.step);
  strategy_.pace().end(state_, cause);
  if (!saved) {
    throw Stopped(cause + "; checkpoints are switched off, so the state is lost.",
                  "set --save-every above 0.", agreed.signal);
  }
  throw Stopped(cause + where, "start again with the same --model-dir to go on.", agreed.signal);
}

void EarlyEnd::leave(Checkpointer& checkpoints) const {
  checkpoints.wait();
  const int signal = checkpoints.stop_signal();
  const std::string task = strategy_.elastic()->cluster().task();
  strategy_.elastic()->leave();
  throw Stopped(text(signal_name(signal), ": ", task, " left after step ", state_.step,
                     "; the others go on."),
                "to stop the whole run, signal troupe run.", signal);
}

}  // namespace troupe::detail
