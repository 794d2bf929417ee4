#include "data/loader.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "data/one_compute_thread.h"
#include "data/owned_tensor.h"

namespace troupe {
namespace {

// What one epoch reads; copied, so that an Epoch may outlive its DistributedDataset.
struct Reading {
  std::shared_ptr<const StepSource> source;
  ReplicaRange range;
  std::int64_t epoch;
  std::int64_t first_step;

  [[nodiscard]] const ShardPlan& plan() const { return source->plan(); }
  [[nodiscard]] const LoaderOptions& options() const { return source->options(); }
};

// Steps that go from the prefetch thread to the training thread and back, without being copied.
using Steps = std::list<DistributedBatch>;

void check_fields(const std::vector<at::Tensor>& fields, std::int64_t examples) {
  if (fields.empty()) {
    throw DataError("Dataset::get() returned no field.", "return one tensor per field.");
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const at::Tensor& field = fields[i];
    const bool has_examples = field.defined() && field.dim() >= 1;
    if (has_examples && field.size(0) == examples) continue;
    throw DataError(
        text("Dataset::get() was asked for ", examples, " examples, field ", i,
             " of its result has ",
             has_examples ? text(field.size(0)) : std::string("no first dimension"), "."),
        "return tensors [B, ...] for B indices; a batch transform must keep B too.");
  }
}

// Gathers one step after the other, in one thread.
class Gatherer {
 public:
  explicit Gatherer(const Reading& reading)
      : reading_(reading), order_(reading.plan().order(reading.epoch)) {}

  /// Makes `batch`, which may be an earlier step, step `step`.
  void gather(std::int64_t step, DistributedBatch& batch) {
    const Traced traced("gather batch");
    const ShardPlan& plan = reading_.plan();
    batch.global_examples = plan.global_examples(step);
    batch.epoch = reading_.epoch;
    batch.step = step;
    batch.first_replica = reading_.range.first;
    batch.source = reading_.source;
    batch.replicas.resize(static_cast<std::size_t>(reading_.range.count));
    for (int i = 0; i < reading_.range.count; ++i) {
      Share share = plan.share(step, reading_.range.first + i);
      Batch& mine = batch.replicas[static_cast<std::size_t>(i)];
      mine.global_examples = batch.global_examples;
      mine.stand_in = share.count == 0;
      // Gathered again even where replica 0 is local too: a step may change its fields in place.
      if (mine.stand_in) share = plan.share(step, 0);
      for (at::Tensor& field : mine.fields) {
        if (!detail::is_ours_alone(field)) field.reset();
      }
      reading_.source->get_into(indices_of(share), mine.fields);
    }
  }

 private:
  const at::Tensor& indices_of(const Share& share) {
    const bool fits = detail::is_ours_alone(indices_) && indices_.size(0) == share.count;
    if (!fits) indices_ = at::empty({share.count}, at::kLong);
    std::copy_n(order_.begin() + share.offset, share.count, indices_.data_ptr<std::int64_t>());
    return indices_;
  }

  const Reading& reading_;
  const std::vector<std::int64_t> order_;
  at::Tensor indices_;  // [B] of the last batch
};

void warn_of_waiting(const Reading& reading, const char* who, int waits) {
  const auto waited = std::chrono::duration<double>(reading.options().warn_after * waits).count();
  log_warning(who, " has waited ", waited, " s for Dataset::get() in epoch ", reading.epoch,
              ". If the data set reads from a disk or the network, look there.");
}

}  // namespace

// The queue between the prefetch thread and the training thread. Everything below `mutex` is
// guarded by it, except `current`, which is the training thread's.
struct Epoch::Reader {
  explicit Reader(Reading what)
      : reading(std::move(what)),
        used(
            static_cast<std::size_t>(1 + std::min<std::int64_t>(reading.options().prefetch_steps,
                                                                reading.plan().steps_per_epoch()))),
        thread([this] { prefetch(); }) {}
  ~Reader() { stop(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Training thread: makes the next step the current one; false at the end.
  bool advance();
  // Training thread: ends and joins the prefetch thread.
  void stop();

  const Reading reading;
  Steps current;  // training thread's; one, or none before the first

  std::mutex mutex;
  std::condition_variable changed;
  Steps ready;               // gathered, in order
  Steps used;                // read, or not yet anything: to be gathered into
  std::exception_ptr error;  // what ended the prefetch thread, after the steps in `ready`
  bool finished = false;     // the prefetch thread adds nothing more
  bool stopped = false;      // the training thread wants nothing more

  std::thread thread;  // last: it uses all of the above

 private:
  void prefetch() noexcept;
  void prefetch_steps();
  // Prefetch thread: waits for room and gives a step to gather into; none if nobody wants more.
  Steps wait_for_room();
  // Training thread, holding `lock`: waits until `done`, with a warning now and then.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const char* who, Done done);
};

template <class Done>
void Epoch::Reader::wait(std::unique_lock<std::mutex>& lock, const char* who, Done done) {
  for (int waits = 1; !changed.wait_for(lock, reading.options().warn_after, done); ++waits) {
    lock.unlock();  // the log may be slow
    warn_of_waiting(reading, who, waits);
    lock.lock();
  }
}

bool Epoch::Reader::advance() {
  std::unique_lock<std::mutex> lock(mutex);
  wait(lock, "Training", [this] { return finished || !ready.empty(); });
  if (ready.empty()) {
    if (error) std::rethrow_exception(error);
    return false;
  }
  used.splice(used.end(), current);
  current.splice(current.end(), ready, ready.begin());
  lock.unlock();
  changed.notify_all();
  return true;
}

void Epoch::Reader::stop() {
  std::unique_lock<std::mutex> lock(mutex);
  stopped = true;
  changed.notify_all();
  wait(lock, "The end of an epoch", [this] { return finished; });
  lock.unlock();
  thread.join();
}

Steps Epoch::Reader::wait_for_room() {
  std::unique_lock<std::mutex> lock(mutex);
  const auto room = static_cast<std::size_t>(reading.options().prefetch_steps);
  // No deadline: the training thread either takes a step or stops us, in State's destructor.
  changed.wait(lock, [this, room] { return stopped || ready.size() < room; });
  Steps next;
  if (stopped) return next;
  // The others are at most: the current one, and one less than there is room for.
  next.splice(next.end(), used, used.begin());
  return next;
}

void Epoch::Reader::prefetch_steps() {
  if (reading.first_step == reading.plan().steps_per_epoch()) return;
  name_this_thread("loader thread");
  detail::use_one_compute_thread_here();
  const at::NoGradGuard no_gradients;
  Gatherer gatherer(reading);
  for (auto step = reading.first_step; step < reading.plan().steps_per_epoch(); ++step) {
    Steps next = wait_for_room();
    if (next.empty()) return;
    gatherer.gather(step, next.front());
    const std::lock_guard<std::mutex> lock(mutex);
    ready.splice(ready.end(), next);
    changed.notify_all();
  }
}

void Epoch::Reader::prefetch() noexcept {
  std::exception_ptr failure;
  try {
    prefetch_steps();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(mutex);
  error = std::move(failure);
  finished = true;
  changed.notify_all();
}

/// One Reader after another: each reads for the replicas that the worker has at the time.
struct Epoch::State {
  State(const Reading& what, std::shared_ptr<const ReplicaRange> replicas)
      : range(std::move(replicas)), next_step(what.first_step), reader(std::in_place, what) {}

  // Makes the next step the current one; false at the end.
  bool advance() {
    if (*range != reader->reading.range) {
      Reading now = reader->reading;
      now.range = *range;
      now.first_step = next_step;
      reader.emplace(now);
    }
    ++next_step;
    return reader->advance();
  }

  const std::shared_ptr<const ReplicaRange> range;
  bool begun = false;
  std::int64_t next_step;
  std::optional<Reader> reader;
};

Epoch::Epoch(std::unique_ptr<State> state) : state_(std::move(state)) {}
Epoch::Epoch(Epoch&&) noexcept = default;
Epoch& Epoch::operator=(Epoch&&) noexcept = default;
Epoch::~Epoch() = default;

Epoch::Iterator Epoch::begin() {
  if (state_->begun) {
    throw ConfigError("An epoch's steps were read twice.",
                      "call DistributedDataset::epoch() again for another pass.");
  }
  state_->begun = true;
  return Iterator(state_->advance() ? state_.get() : nullptr);
}

Epoch::Iterator Epoch::end() { return Iterator(); }

Epoch::Iterator::reference Epoch::Iterator::operator*() const {
  return state_->reader->current.front();
}

Epoch::Iterator& Epoch::Iterator::operator++() {
  if (!state_->advance()) state_ = nullptr;
  return *this;
}

DistributedDataset::DistributedDataset(std::shared_ptr<const Dataset> dataset,
                                       const ShardPlan& plan,
                                       std::shared_ptr<const ReplicaRange> range,
                                       const LoaderOptions& options)
    : source_(std::make_shared<StepSource>(dataset, plan, options)), range_(std::move(range)) {
  if (!dataset) {
    throw ConfigError("A data set to be distributed is null.",
                      "return one from Hooks::create_datasets.");
  }
  if (dataset->size() != examples()) {
    throw ConfigError(
        text("The data set has ", dataset->size(), " examples, its plan is for ", examples(), "."),
        "make the ShardPlan from Dataset::size().");
  }
  const int replicas = plan.options().replicas;
  if (range_->first < 0 || range_->count < 1 || range_->first > replicas - range_->count) {
    throw ConfigError(text("This worker is to read for ", range_->count, " replicas from replica ",
                           range_->first, " on, of ", replicas, " replicas."),
                      "give the replicas of this worker out of those of the ShardPlan.");
  }
  if (options.prefetch_steps < 1 || options.warn_after <= std::chrono::milliseconds(0)) {
    throw ConfigError(text("LoaderOptions has prefetch_steps ", options.prefetch_steps,
                           " and warn_after ", options.warn_after.count(), " ms."),
                      "give 1 step or more and a time above 0.");
  }
}

const ShardPlan& DistributedDataset::plan() const { return source_->plan(); }

Epoch DistributedDataset::epoch(std::int64_t epoch, std::int64_t first_step) const {
  if (epoch < 0 || first_step < 0 || first_step > steps_per_epoch()) {
    throw ConfigError(
        text("Reading is to start at step ", first_step, " of epoch ", epoch, ", an epoch has ",
             steps_per_epoch(), " steps."),
        "resume with the --batch-size and the data set of the run that saved the position.");
  }
  return Epoch(
      std::make_unique<Epoch::State>(Reading{source_, *range_, epoch, first_step}, range_));
}

void StepSource::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  const std::lock_guard<std::mutex> lock(in_use_);
  dataset_->get_into(indices, fields);
  check_fields(fields, indices.size(0));
}

DistributedBatch StepSource::read(const std::shared_ptr<const StepSource>& source,
                                  std::int64_t epoch, std::int64_t step,
                                  const ReplicaRange& range) {
  const at::NoGradGuard no_gradients;
  const Reading reading{source, range, epoch, step};
  DistributedBatch batch;
  Gatherer(reading).gather(step, batch);
  return batch;
}

}  // namespace troupe
