#include "troupe/train/checkpoint/checkpointer.h"

#include <chrono>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/core/user_code.h"
#include "troupe/hooks/tensors/tensor_file.h"
#include "troupe/strategies/elastic.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/checkpoint/checkpoint_reader.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/checkpoint/warm_start.h"

namespace troupe {
namespace {

/// The newest good checkpoint; unset: there is none.
std::optional<RunSnapshot> load_newest(const std::string& model_dir) {
  PosixFileSystem files(model_dir);
  RunSnapshot snapshot;
  CheckpointReader reader(files);
  const auto found = reader.load_latest([&](const CheckpointInfo& info) {
    snapshot = {};
    snapshot.facts = info.extras;
    for (const auto& file : info.files) {
      snapshot.files[file.name] = read_tensors(reader, info, file, file.name);
    }
    check_own_states(snapshot);
  });
  if (!found) return std::nullopt;
  return snapshot;
}

/// What of the chief's copy every worker holds alike: no buffers of one replica's own, and nothing
/// of optimisers whose state is divided.
detail::Captured held_alike(const RunSnapshot& snapshot, const Strategy& strategy,
                            const TrainState& state) {
  if (!strategy.is_chief()) return {};
  detail::Captured alike{snapshot.files.at(detail::kModelFile), {}};
  if (strategy.virtual_replicas() == 0) {
    alike.weights.resize(state.replicas.front()->parameters().size());
  }
  if (state.averages) alike.others = snapshot.files.at(detail::kAveragesFile);
  if (state.optimizer_shards > 1) return alike;
  const auto& optimizers = snapshot.files.at(detail::kOptimizersFile);
  alike.others.insert(alike.others.end(), optimizers.begin(), optimizers.end());
  return alike;
}

}  // namespace

bool restore_newest(Strategy& strategy, TrainState& state, const DataIdentity& data,
                    const TrainOptions& options) {
  std::optional<RunSnapshot> found;
  if (strategy.is_chief()) found = load_newest(options.model_dir);
  const bool there = strategy.gather(found ? "checkpoint" : "").front() == "checkpoint";
  if (!there && options.resume == Resume::must) {
    throw ConfigError("--resume must was given, and " + options.model_dir + " holds no checkpoint.",
                      "check --model-dir, or leave --resume out to start anew.");
  }
  if (there && options.resume == Resume::never) {
    throw ConfigError("--resume never was given, and " + options.model_dir + " holds checkpoints.",
                      "choose another --model-dir, or remove them yourself.");
  }
  if (there) {
    restore(strategy, state, data, found.value_or(RunSnapshot()));
  } else {
    copy_from(options.warm_start, strategy, state);
  }
  return there;
}

Checkpointer::Checkpointer(Strategy& strategy, TrainState& state, const DataIdentity& data,
                           const TrainOptions& options, const Clock& clock,
                           std::vector<std::shared_ptr<SavingListener>> listeners, OnSaved on_saved,
                           Begin begin)
    : strategy_(strategy),
      state_(state),
      data_(data),
      options_(options),
      cadence_(checkpoint_cadence(options)),
      clock_(clock),
      files_(options.model_dir),
      given_(std::move(listeners)),
      on_saved_(std::move(on_saved)),
      saved_at_(clock.now()) {
  if (cadence_.never() && strategy.is_chief() && !given_.empty()) {
    throw ConfigError("saving listeners were given, and checkpoints are never saved.",
                      "set save_checkpoints_steps or save_checkpoints_secs above 0, or leave the "
                      "listeners out.");
  }
  if (state.made_options.empty()) {
    Replica& replica = *state.replicas.front();
    for (const std::string& name : replica.optimizer_names())
      state.made_options[name] = options_of(replica.optimizer(name)).dump();
  }
  if (strategy.elastic() != nullptr) strategy.elastic()->lead_if([this] { return sees_chief(); });
  if (begin == Begin::under_way) return;
  if (strategy.is_chief()) open_writer();
  resume();
  if (saved_step_) {
    tell_saved(Save::periodic);
  } else {
    save(Save::periodic);
    if (strategy.elastic() != nullptr)
      wait();  // once training has begun, no other chief has this state
  }
  listener_stops_ = false;  // the state that training starts from ends nothing
}

Checkpointer::~Checkpointer() {
  if (strategy_.elastic() != nullptr) strategy_.elastic()->lead_if(nullptr);
  try {
    wait();
  } catch (const std::exception& error) {
    // Another failure is under way where a save's was not asked for.
    log_error("the save in the background has failed: ", error.what());
  }
}

/// What the chief of an earlier start has left there does not count.
bool Checkpointer::sees_chief() try {
  const auto generation = generation_on_record(files_);
  return generation && *generation >= options_.generation;
} catch (const Error& error) {
  log_warning("this worker cannot be the chief: ", error.cause());
  return false;
}

void Checkpointer::open_writer() {
  listeners_ = std::move(given_);
  for (auto& listener : listeners_) {
    detail::in_user_code([&] { listener->begin(); }, [&] { return listener_text("begin"); });
  }
  writer_.emplace(files_, this_process(std::max(options_.generation, strategy_.view().generation)),
                  RetentionOptions{static_cast<int>(options_.keep_checkpoint_max),
                                   Seconds(options_.keep_checkpoint_every_n_hours * 3600)});
  best_ = writer_->best();
}

void Checkpointer::offer_best(const std::string& metric, double value, Better better) {
  if (!std::isfinite(value)) return;
  if (!writer_) {
    offer_ = {state_.step, metric, value, better};
    return;
  }
  const bool known = best_ && best_->metric == metric;
  if (known && !(better == Better::lower ? value < best_->value : value > best_->value)) return;
  best_ = {state_.step, metric, value};
  if (has_to_save()) return;
  wait();
  mark(*best_);
}

void Checkpointer::mark(const BestCheckpoint& best) {
  writer_->mark_best(best);
  log_info(checkpoint_name(best.step), " is the best so far: ", best.metric, " = ", best.value);
}

/// The chief before it may have written a checkpoint, or the best one, that nobody knows of.
void Checkpointer::lead(bool tells) {
  if (writer_) return;
  open_writer();
  const std::vector<CheckpointInfo> all = CheckpointReader(files_).all();
  saved_step_ = all.empty() ? std::nullopt : std::optional(all.back().step);
  if (offer_ && offer_->step == state_.step)
    offer_best(offer_->metric, offer_->value, offer_->better);
  if (!saved_step_) return;
  writer_->adopt(*saved_step_);
  if (on_saved_) on_saved_(*saved_step_, std::nullopt);
  if (tells) tell_saved(Save::periodic);
}

void Checkpointer::resume() {
  if (!restore_newest(strategy_, state_, data_, options_)) return;
  saved_step_ = state_.step;
  // Who has written it may have been lost before that was said.
  if (strategy_.is_chief() && on_saved_) on_saved_(state_.step, std::nullopt);
  log_info("resuming at step ", state_.step, " (step ", state_.position.step, " of epoch ",
           state_.position.epoch + 1, ") from ", options_.model_dir);
  if (!options_.warm_start.from.empty()) {
    log_info("the warm start from ", options_.warm_start.from,
             " is not used, because this training has begun; another --model-dir starts anew");
  }
}

bool Checkpointer::is_due() {
  const bool over =
      saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (over) saving_.get();
  if (!saved_step_) return saves() && strategy_.is_chief();  // who has joined is about to know
  // One clock decides for all.
  const double seconds = strategy_.is_chief() ? Seconds(clock_.now() - saved_at_).count() : 0;
  return cadence_.is_due(state_.step, *saved_step_, seconds);
}

SavedCheckpoint Checkpointer::saved(Save which) const {
  return {*saved_step_, options_.model_dir + "/" + checkpoint_name(*saved_step_),
          which == Save::last};
}

std::string Checkpointer::listener_text(const char* function) const {
  return text("a saving listener failed in ", function, " at step ", state_.step);
}

void Checkpointer::tell_saved(Save which) {
  for (auto& listener : listeners_) {
    const bool stops = detail::in_user_code([&] { return listener->after_save(saved(which)); },
                                            [&] { return listener_text("after_save"); });
    if (stops) listener_stops_ = true;
  }
}

void Checkpointer::save(Save which) {
  if (!has_to_save()) return;
  const Traced traced("save");
  strategy_.pace().collect(state_);
  wait();  // one copy of the state at a time: a slow disk is waited for here
  const bool told = which != Save::stopping && !listeners_.empty();
  if (told) {
    for (auto& listener : listeners_) {
      detail::in_user_code([&] { listener->before_save(state_.step); },
                           [&] { return listener_text("before_save"); });
    }
  }
  RunSnapshot snapshot = capture(strategy_, state_, data_);
  const detail::Captured alike = held_alike(snapshot, strategy_, state_);
  detail::check_weights(strategy_, state_, saved_step_, &alike);
  saved_step_ = state_.step;
  saved_at_ = clock_.now();
  if (writer_) {
    // The thread lets go of the copy when it is written.
    saving_ = std::async(std::launch::async, [this, step = state_.step, best = best_,
                                              snapshot = std::move(snapshot)]() mutable {
      write(step, std::exchange(snapshot, {}));
      if (best && best->step == step) mark(*best);
    });
  }
  if (which != Save::stopping) evaluate_together(which, /*ends=*/false);
  if (!writer_ || !told) return;
  wait();
  tell_saved(which);
}

void Checkpointer::evaluate_together(Save which, bool ends) {
  if (!together_ || !saved_step_) return;
  double wanted = 0;
  for (const auto& listener : listeners_) {
    if (listener->wants_evaluation(saved(which), ends)) wanted = 1;
  }
  strategy_.sum(Span<double>(&wanted, 1));
  if (wanted > 0) together_(saved(which));
}

void Checkpointer::write(std::int64_t step, const RunSnapshot& snapshot) {
  name_this_thread("checkpoint writer");
  const Traced traced("write checkpoint");
  const auto start = steady_clock().now();
  std::vector<CheckpointFile> contents;
  for (const auto& [name, tensors] : snapshot.files) {
    contents.push_back(
        {name, [&content = tensors](const ByteSink& sink) { write_tensors(content, sink); }});
  }
  // By a chief that was lost before the others knew of it.
  const bool is_there = files_.status(checkpoint_name(step)).has_value();
  writer_->save(step, contents, snapshot.facts);
  const double seconds = Seconds(steady_clock().now() - start).count();
  // Where training begins nothing is won yet.
  log(step == 0 ? LogLevel::debug : LogLevel::info,
      text("saved ", options_.model_dir, "/", checkpoint_name(step), " (", seconds, " sec)"));
  if (on_saved_) on_saved_(step, is_there ? std::nullopt : std::optional(seconds));
}

void Checkpointer::wait() {
  if (saving_.valid()) saving_.get();
}

void Checkpointer::finish() {
  wait();
  evaluate_together(Save::last, /*ends=*/true);
  for (auto& listener : listeners_) {
    detail::in_user_code([&] { listener->end(saved(Save::last)); },
                         [&] { return listener_text("end"); });
  }
}

}  // namespace troupe
