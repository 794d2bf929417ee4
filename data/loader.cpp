#include "troupe/data/loader.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/data/shard_plan.h"
#include "troupe/data/step_source.h"

namespace troupe {
namespace {

// What one epoch reads; copied, so that an Epoch may outlive its DistributedDataset.
struct Reading {
  std::shared_ptr<const StepSource> source;
  detail::ReplicaRange range;
  DataPosition from;

  [[nodiscard]] const LoaderOptions& options() const { return source->options(); }
};

// Steps that go from a loader thread to the training thread and back, without being copied.
using Steps = std::list<DistributedBatch>;

/// Gives the calling thread, and no other, one compute thread. at::set_num_threads() would not do:
/// it also changes what threads that start later get, such as the backward pass's.
void use_one_compute_thread_here() {
  // ATen sets a thread's count at its first use; that has to lie behind us, or it undoes our
  // setting.
  if (at::get_num_threads() == 1) return;
  // In OpenMP the count is a property of the calling thread. The function is looked up in the
  // process, because the runtime to ask is the one that LibTorch brought along, and that may be a
  // renamed copy which the linker knows nothing of. Without OpenMP, ATen has one pool for the whole
  // process, so there is no second one to keep from starting.
  using SetNumThreads = void (*)(int);
  if (void* const symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<SetNumThreads>(symbol)(1);
  }
  // MKL, inside pip's LibTorch, goes by a count of its own, and starts a team for exp() of a large
  // tensor.
  if (void* const symbol = dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local")) {
    (void)reinterpret_cast<int (*)(int)>(symbol)(1);
  }
}

}  // namespace

// The queue between the loader threads and the training thread. Everything below `mutex` is
// guarded by it; `current` and `expected` are the training thread's.
struct Epoch::Reader {
  explicit Reader(Reading what)
      : reading(std::move(what)),
        steps(reading.source->open(reading.from)),
        expected(reading.from.step),
        running(reading.options().threads) {
    start();
  }
  ~Reader() { stop(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Training thread: makes the next step the current one; false at the end.
  bool advance() { return reading.options().threads == 0 ? advance_alone() : advance_by_threads(); }
  // Training thread: ends and joins the loader threads.
  void stop();

  const Reading reading;
  const std::unique_ptr<EpochSteps> steps;  // drawn from by one thread at a time: see `drawing`
  Steps current;                            // one, or none before the first
  std::int64_t expected;                    // the step that follows the current one

  std::mutex drawing;
  std::int64_t next_drawn = expected;  // guarded by `drawing`, as `steps`

  std::mutex mutex;
  std::condition_variable changed;
  Steps ready;                    // gathered, in order, but some between them may still be missing
  Steps used;                     // read: to be gathered into
  int gathering = 0;              // steps that were drawn and are not ready
  std::exception_ptr error;       // of the earliest step that failed
  std::int64_t failed_step = -1;  // its number
  int running;                    // loader threads that have not ended
  bool stopped = false;           // nobody wants another step

  std::vector<std::thread> threads;  // last: they use all of the above

 private:
  bool advance_alone();
  bool advance_by_threads();
  void start();
  void load() noexcept;
  void load_steps(StepDraw& draw);
  // Loader thread: draws the next step and gives one to gather into; none if nobody wants more.
  Steps claim(StepDraw& draw);
  Steps wait_for_room();
  [[nodiscard]] bool has_next() const { return !ready.empty() && ready.front().step == expected; }
  // Training thread, holding `lock`: waits until `done`, with a warning now and then.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const char* who, Done done);
};

template <class Done>
void Epoch::Reader::wait(std::unique_lock<std::mutex>& lock, const char* who, Done done) {
  for (int waits = 1; !changed.wait_for(lock, reading.options().warn_after, done); ++waits) {
    lock.unlock();  // the log may be slow
    const auto waited = std::chrono::duration<double>(reading.options().warn_after * waits).count();
    log_warning(who, " has waited ", waited, " s for Dataset::get() in epoch ", reading.from.epoch,
                ". If the data set reads from a disk or the network, look there.");
    lock.lock();
  }
}

bool Epoch::Reader::advance_alone() {
  if (current.empty()) current.emplace_back();
  const at::NoGradGuard no_gradients;
  StepDraw draw;
  draw.step = expected;
  if (!steps->draw(draw)) return false;
  gather(reading.source, *steps, draw, reading.from.epoch, reading.range, current.front());
  ++expected;
  return true;
}

bool Epoch::Reader::advance_by_threads() {
  std::unique_lock<std::mutex> lock(mutex);
  wait(lock, "Training",
       [this] { return has_next() || running == 0 || (error && failed_step == expected); });
  if (!has_next()) {
    if (error) std::rethrow_exception(error);
    return false;
  }
  used.splice(used.end(), current);
  current.splice(current.end(), ready, ready.begin());
  ++expected;
  lock.unlock();
  changed.notify_all();
  return true;
}

void Epoch::Reader::stop() {
  std::unique_lock<std::mutex> lock(mutex);
  stopped = true;
  changed.notify_all();
  wait(lock, "The end of an epoch", [this] { return running == 0; });
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
}

Steps Epoch::Reader::wait_for_room() {
  std::unique_lock<std::mutex> lock(mutex);
  // Each thread but the first adds one: a step that it works at.
  const int room = reading.options().prefetch_steps + reading.options().threads - 1;
  // No deadline: the training thread either takes a step or stops us, in State's destructor.
  changed.wait(
      lock, [this, room] { return stopped || static_cast<int>(ready.size()) + gathering < room; });
  Steps next;
  if (stopped) return next;
  ++gathering;
  if (used.empty()) used.emplace_back();
  next.splice(next.end(), used, used.begin());
  return next;
}

Steps Epoch::Reader::claim(StepDraw& draw) {
  const std::lock_guard<std::mutex> alone(drawing);
  Steps next = wait_for_room();
  if (next.empty()) return next;
  draw.step = next_drawn;  // the one that fails where this throws
  if (steps->draw(draw)) {
    ++next_drawn;
  } else {
    const std::lock_guard<std::mutex> lock(mutex);
    --gathering;
    next.clear();
  }
  return next;
}

void Epoch::Reader::load_steps(StepDraw& draw) {
  for (;;) {
    Steps next = claim(draw);
    if (next.empty()) return;
    gather(reading.source, *steps, draw, reading.from.epoch, reading.range, next.front());
    draw.read.clear();  // each example may keep a whole block of a stream in memory
    const std::lock_guard<std::mutex> lock(mutex);
    --gathering;
    const auto later = std::find_if(ready.begin(), ready.end(),
                                    [&](const auto& step) { return step.step > draw.step; });
    ready.splice(later, next);
    changed.notify_all();
  }
}

void Epoch::Reader::load() noexcept {
  StepDraw draw;
  std::exception_ptr failure;
  try {
    name_this_thread("loader thread");
    use_one_compute_thread_here();
    const at::NoGradGuard no_gradients;
    load_steps(draw);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(mutex);
  // Steps before it are on their way; later ones are not drawn any more.
  if (failure) stopped = true;
  if (failure && (!error || draw.step < failed_step)) {
    error = std::move(failure);
    failed_step = draw.step;
  }
  --running;
  changed.notify_all();
}

void Epoch::Reader::start() {
  try {
    while (static_cast<int>(threads.size()) < reading.options().threads) {
      threads.emplace_back([this] { load(); });
    }
  } catch (...) {  // the system has no more threads
    {
      const std::lock_guard<std::mutex> lock(mutex);
      running -= reading.options().threads - static_cast<int>(threads.size());
    }
    stop();
    throw;
  }
}

/// One Reader after another: each reads for the replicas that the worker has at the time.
struct Epoch::State {
  State(const Reading& what, std::shared_ptr<const detail::ReplicaRange> replicas)
      : range(std::move(replicas)), next(what.from), reader(std::in_place, what) {}

  const DistributedBatch* advance() {
    if (*range != reader->reading.range) {
      Reading now = reader->reading;
      now.range = *range;
      now.from = next;
      reader.emplace(now);
    }
    if (!reader->advance()) return nullptr;
    const DistributedBatch& batch = reader->current.front();
    next = {batch.epoch, batch.step + 1, batch.last, batch.place};
    return &batch;
  }

  const std::shared_ptr<const detail::ReplicaRange> range;
  bool begun = false;
  DataPosition next;
  std::optional<Reader> reader;
};

Epoch::Epoch(std::unique_ptr<State> state) : state_(std::move(state)) {}
Epoch::Epoch(Epoch&&) noexcept = default;
Epoch& Epoch::operator=(Epoch&&) noexcept = default;
Epoch::~Epoch() = default;

const DistributedBatch* Epoch::next() { return state_->advance(); }

Epoch::Iterator Epoch::begin() {
  if (std::exchange(state_->begun, true)) {
    throw ConfigError("An epoch's steps were read twice.",
                      "call DistributedDataset::epoch() again for another pass.");
  }
  return PullRange::begin();
}

DistributedDataset::DistributedDataset(std::shared_ptr<const Dataset> dataset,
                                       const ShardPlan& plan,
                                       std::shared_ptr<const detail::ReplicaRange> range,
                                       const LoaderOptions& options)
    : source_(std::make_shared<StepSource>(std::move(dataset), plan, options)),
      range_(std::move(range)) {
  const int replicas = plan.options().replicas;
  if (range_->first < 0 || range_->count < 1 || range_->first > replicas - range_->count) {
    throw ConfigError(text("This worker is to read for ", range_->count, " replicas from replica ",
                           range_->first, " on, of ", replicas, " replicas."),
                      "give the replicas of this worker out of those of the ShardPlan.");
  }
  if (options.prefetch_steps < 1 || options.threads < 0 || options.threads > kMostLoaderThreads ||
      options.warn_after <= std::chrono::milliseconds(0)) {
    throw ConfigError(
        text("LoaderOptions has prefetch_steps ", options.prefetch_steps, ", threads ",
             options.threads, " and warn_after ", options.warn_after.count(), " ms."),
        text("give 1 step or more, 0 to ", kMostLoaderThreads, " threads and a time above 0."));
  }
}

DistributedDataset::DistributedDataset(std::shared_ptr<const Dataset> dataset,
                                       const ShardPlan& plan, int first_replica, int local_replicas,
                                       const LoaderOptions& options)
    : DistributedDataset(std::move(dataset), plan,
                         std::make_shared<detail::ReplicaRange>(
                             detail::ReplicaRange{first_replica, local_replicas}),
                         options) {}

std::int64_t DistributedDataset::examples() const { return plan().options().examples; }

std::optional<std::int64_t> DistributedDataset::steps_per_epoch() const {
  return plan().steps_per_epoch();
}

std::int64_t DistributedDataset::global_batch_size() const { return plan().options().global_batch; }

const ShardPlan& DistributedDataset::plan() const { return source_->plan(); }

std::string DistributedDataset::order_signature() const { return source_->order_signature(); }

Epoch DistributedDataset::epoch(const DataPosition& position) const {
  const auto steps = steps_per_epoch();
  if (position.epoch < 0 || position.step < 0 || (steps && position.step > *steps)) {
    throw ConfigError(
        text("Reading is to start at step ", position.step, " of epoch ", position.epoch,
             ", an epoch has ", steps ? text(*steps) : std::string("some"), " steps."),
        "resume with the --batch-size and the data set of the run that saved the position.");
  }
  return Epoch(std::make_unique<Epoch::State>(Reading{source_, *range_, position}, range_));
}

DistributedDataset DistributedDataset::first(std::int64_t most, std::int64_t global_batch,
                                             Sampler order) const {
  const auto part = take(source_->dataset(), 0, std::min(most, examples()));
  ShardPlanOptions options = plan().options();
  options.examples = part->size();
  options.global_batch = global_batch;
  options.sampler = std::move(order);
  options.batches = 1;
  options.drop_last = false;
  LoaderOptions loader;
  loader.threads = 0;  // threads that start beside busy ones take longer than these few examples
  return {part, ShardPlan(options), range_, loader};
}

DataPosition DistributedDataset::after(const DistributedBatch& batch) const {
  const std::int64_t step = batch.step + 1;
  return {batch.epoch, step, batch.last || step == steps_per_epoch(), batch.place};
}

}  // namespace troupe
