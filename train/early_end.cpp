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

Wishes EarlyEnd::save(Checkpointer& checkpoints, Checkpointer::Save which,
                      const std::function<void(Wishes&)>& wish) const {
  using Save = Checkpointer::Save;
  const bool is_elastic = strategy_.elastic() != nullptr;
  for (;;) {
    checkpoints.save(which);
    // Nobody leaves before the chief has saved, and where it may be lost nobody goes on: the state
    // of this step would be gone.
    if (is_elastic || which != Save::periodic) checkpoints.wait();
    Wishes mine;
    if (wish) wish(mine);
    wish_for_chief(mine, strategy_.is_chief(), checkpoints);
    mine.told = strategy_.is_chief() && !mine.save_anew;
    const Wishes agreed = agree(strategy_, mine);
    const bool is_lost =
        agreed.save_anew && checkpoints.take_over(newest_of(agreed), which != Save::stopping);
    const bool chief_has_saved = agreed.told > 0 || agreed.save_anew > 0 || !is_elastic;
    if (chief_has_saved && !is_lost) return agreed;
  }
}

bool EarlyEnd::follow_chief(Checkpointer& checkpoints) const {
  Wishes mine;
  wish_for_chief(mine, strategy_.is_chief(), checkpoints);
  const Wishes agreed = agree(strategy_, mine);
  if (agreed.save_anew) (void)checkpoints.take_over(newest_of(agreed), /*tells=*/false);
  return agreed.save_anew > 0;
}

void EarlyEnd::wish_for_chief(Wishes& mine, bool is_chief, Checkpointer& checkpoints) {
  mine.save_anew = checkpoints.has_lost_chief();
  if (mine.save_anew && is_chief) mine.found = checkpoints.find_newest().value_or(-1) + 1;
}

void EarlyEnd::end_all(const Wishes& agreed, Checkpointer* checkpoints) const {
  if (checkpoints != nullptr) (void)save(*checkpoints, Checkpointer::Save::stopping);
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
