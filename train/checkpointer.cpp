#include "train/checkpointer.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "train/checkpoint_reader.h"
#include "train/checkpoint_writer.h"

namespace troupe {
namespace {

constexpr double kDefaultSeconds = 600;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 40;

}  // namespace

/// The chief's model directory.
class Checkpointer::Files {
 public:
  explicit Files(const TrainOptions& options)
      : directory_(options.model_dir),
        files_(options.model_dir),
        writer_(files_, this_process(options.generation),
                {static_cast<int>(options.keep_checkpoint_max),
                 Seconds(options.keep_checkpoint_every_n_hours * 3600)}) {}

  /// The newest good checkpoint; unset: there is none.
  std::optional<RunSnapshot> load() {
    RunSnapshot snapshot;
    CheckpointReader reader(files_);
    const auto found = reader.load_latest([&](const CheckpointInfo& info) {
      snapshot = {};
      snapshot.facts = info.extras.dump();
      for (const auto& file : info.files) snapshot.files[file.name] = reader.read(info, file.name);
    });
    if (!found) return std::nullopt;
    return snapshot;
  }

  void save(std::int64_t step, const RunSnapshot& snapshot) {
    const SteadyClock clock;
    const auto start = clock.now();
    std::vector<CheckpointFile> contents;
    for (const auto& [name, bytes] : snapshot.files) {
      contents.push_back({name, [&content = bytes](const ByteSink& sink) { sink(content); }});
    }
    writer_.save(step, contents, nlohmann::json::parse(snapshot.facts));
    log_info("saved ", directory_, "/", checkpoint_name(step), " (",
             Seconds(clock.now() - start).count(), " sec)");
  }

 private:
  std::string directory_;
  PosixFileSystem files_;
  CheckpointWriter writer_;
};

Checkpointer::Checkpointer(Strategy& strategy, TrainState& state, const DataIdentity& data,
                           const TrainOptions& options, const Clock& clock)
    : strategy_(strategy),
      state_(state),
      data_(data),
      options_(options),
      clock_(clock),
      saved_at_(clock.now()) {
  resume();
  if (!saved_step_) save();
}

Checkpointer::~Checkpointer() = default;

void Checkpointer::resume() {
  std::optional<RunSnapshot> found;
  if (strategy_.is_chief()) {
    files_ = std::make_unique<Files>(options_);
    found = files_->load();
  }
  const bool there = strategy_.gather(found ? "checkpoint" : "").front() == "checkpoint";
  if (!there && options_.resume == "must") {
    throw ConfigError(
        "--resume must was given, and " + options_.model_dir + " holds no checkpoint.",
        "check --model-dir, or leave --resume out to start anew.");
  }
  if (there && options_.resume == "never") {
    throw ConfigError("--resume never was given, and " + options_.model_dir + " holds checkpoints.",
                      "choose another --model-dir, or remove them yourself.");
  }
  if (!there) return;
  restore(strategy_, state_, data_, found.value_or(RunSnapshot()));
  saved_step_ = state_.step;
  log_info("resuming at step ", state_.step, " (step ", state_.position.step, " of epoch ",
           state_.position.epoch + 1, ") from ", options_.model_dir);
}

void Checkpointer::save() {
  const RunSnapshot snapshot = capture(strategy_, state_, data_);
  if (strategy_.is_chief()) files_->save(state_.step, snapshot);
  saved_step_ = state_.step;
  saved_at_ = clock_.now();
}

bool Checkpointer::is_time() const {
  if (options_.save_checkpoints_steps) {
    return state_.step >= *saved_step_ + *options_.save_checkpoints_steps;
  }
  // One clock decides for all.
  return strategy_.is_chief() && Seconds(clock_.now() - saved_at_).count() >=
                                     options_.save_checkpoints_secs.value_or(kDefaultSeconds);
}

void Checkpointer::after_step(Step step) {
  std::array<double, 2> votes = {is_time() ? 1.0 : 0.0, stop_.requested() ? 1.0 : 0.0};
  strategy_.sum(Span<double>(votes.data(), votes.size()));
  const bool stop = votes[1] > 0;
  const bool due = votes[0] > 0 || stop || step == Step::last;
  if (due && saved_step_ != state_.step) save();
  if (!stop) return;
  strategy_.sum(Span<double>(votes.data(), votes.size()));  // nobody leaves before the chief saved
  throw Stopped("SIGTERM: all workers stopped after step " + std::to_string(state_.step) +
                    "; the state is saved in " + options_.model_dir + ".",
                "start again with the same --model-dir to go on.");
}

}  // namespace troupe
