#include "troupe/data/step_source.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/core/user_code.h"
#include "troupe/data/stream.h"

namespace troupe {
namespace {

/// Whether the loader may write over the memory of `tensor`: its holder alone has it, no copy, no
/// view, and nothing that autograd knows of. A sole holder cannot lose it meanwhile.
bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.defined() && tensor.use_count() == 1 && tensor.has_storage() &&
         tensor.storage().use_count() == 1 &&
         tensor.unsafeGetTensorImpl()->autograd_meta() == nullptr;
}

/// Memory that a GPU may read while the host continues, from LibTorch's allocator, which gives it
/// out again when the GPU has read it. It throws where memory is given back after the GPU has
/// failed, and destructors must not: then the memory is kept, since the run is about to end.
at::Tensor make_pinned(at::IntArrayRef shape, at::ScalarType type) {
  const at::Tensor made = at::empty(shape, at::TensorOptions(type).pinned_memory(true));
  c10::DataPtr memory = made.storage().unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr());
  void* const values = memory.get();
  const auto give_back = [free = memory.get_deleter(), context = memory.release_context()](void*) {
    try {
      free(context);
    } catch (const std::exception& error) {
      log_debug("pinned memory of a batch is kept: ", error.what());
    }
  };
  return at::from_blob(values, shape, give_back, type);
}

/// Leaves in `field` memory to gather into, where there is some. A device may still read what is
/// pinned.
void reuse(at::Tensor& field, bool pins) {
  const bool fits = field.defined() && field.is_cpu() && field.layout() == at::kStrided;
  if (pins && fits) {
    field = make_pinned(field.sizes(), field.scalar_type());
  } else if (pins || !is_ours_alone(field)) {
    field.reset();
  }
}

void pin(std::vector<at::Tensor>& fields) {
  for (at::Tensor& field : fields) {
    if (!field.is_cpu() || field.layout() != at::kStrided || field.is_pinned()) continue;
    field = make_pinned(field.sizes(), field.scalar_type()).copy_(field);
  }
}

class IndexedSteps final : public EpochSteps {
 public:
  IndexedSteps(const StepSource& source, const DataPosition& from)
      : source_(source),
        epoch_(from.epoch),
        next_(from.step),
        end_(*source.plan().steps_per_epoch()) {}

  [[nodiscard]] bool draw(StepDraw& next) override {
    if (next_ >= end_) return false;
    if (order_.empty()) order_ = source_.plan().order(epoch_);
    next.step = next_++;
    next.examples = source_.plan().global_examples(next.step);
    next.last = next_ == end_;
    return true;
  }

  void gather(StepDraw& step, const Share& in_step,
              std::vector<at::Tensor>& fields) const override {
    const std::int64_t first = step.step * source_.plan().options().global_batch + in_step.offset;
    at::Tensor& indices = step.indices;
    const bool fits = is_ours_alone(indices) && indices.size(0) == in_step.count;
    if (!fits) indices = at::empty({in_step.count}, at::kLong);
    std::copy_n(order_.begin() + first, in_step.count, indices.data_ptr<std::int64_t>());
    source_.get_into(indices, {source_.plan().options().seed, epoch_, first}, fields);
  }

 private:
  const StepSource& source_;
  const std::int64_t epoch_;
  std::int64_t next_;
  const std::int64_t end_;
  std::vector<std::int64_t> order_;
};

}  // namespace

StepSource::StepSource(std::shared_ptr<const Dataset> dataset, const ShardPlan& plan,
                       const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      stream_(dynamic_cast<const StreamDataset*>(dataset_.get())),
      plan_(plan),
      options_(options) {
  if (!dataset_) {
    throw ConfigError("A data set to be distributed is null.",
                      "return one from Hooks::create_datasets.");
  }
  if (dataset_->size() != plan.options().examples) {
    throw ConfigError(text("The data set has ", dataset_->size(), " examples, its plan is for ",
                           plan.options().examples, "."),
                      "make the ShardPlan from Dataset::size().");
  }
  if (plan.is_stream() && stream_ == nullptr) {
    throw ConfigError("A data set says that its size is unknown, and is no StreamDataset.",
                      "return the number of examples, or make a StreamDataset.");
  }
}

std::string StepSource::order_signature() const {
  if (stream_ == nullptr) return plan_.order_signature();
  const StreamOptions& stream = stream_->options();
  return text("stream, ", plan_.options().sampler.name, ", windows of ", stream.window,
              " blocks of ", stream.blocks == 0 ? std::string("any number") : text(stream.blocks));
}

std::unique_ptr<EpochSteps> StepSource::open(const DataPosition& from) const {
  if (stream_ != nullptr) return detail::open_stream(*stream_, plan_, from);
  return std::make_unique<IndexedSteps>(*this, from);
}

void StepSource::get_into(const at::Tensor& indices, const DrawPlace& place,
                          std::vector<at::Tensor>& fields) const {
  std::unique_lock<std::mutex> alone(in_use_, std::defer_lock);
  if (options_.threads <= 1) alone.lock();
  dataset_->draw_into(indices, place, fields);
  detail::check_fields(fields, indices.size(0));
}

void gather(const std::shared_ptr<const StepSource>& source, const EpochSteps& steps,
            StepDraw& draw, std::int64_t epoch, const detail::ReplicaRange& range,
            DistributedBatch& batch) {
  const Traced traced("gather batch");
  const ShardPlan& plan = source->plan();
  batch.global_examples = draw.examples;
  batch.epoch = epoch;
  batch.step = draw.step;
  batch.last = draw.last;
  batch.place = draw.place;
  batch.first_replica = range.first;
  batch.source = source;
  batch.replicas.resize(static_cast<std::size_t>(range.count));
  for (int i = 0; i < range.count; ++i) {
    Share share = plan.share_of(draw.examples, range.first + i);
    Batch& mine = batch.replicas[static_cast<std::size_t>(i)];
    mine.global_examples = batch.global_examples;
    mine.stand_in = share.count == 0;
    // Gathered again even where replica 0 is local too: a step may change its fields in place.
    if (mine.stand_in) share = plan.share_of(draw.examples, 0);
    const bool pins = source->options().pin_memory;
    for (at::Tensor& field : mine.fields) reuse(field, pins);
    detail::in_user_code([&] { steps.gather(draw, share, mine.fields); },
                         [&] {
                           const auto list = example_list(batch, static_cast<std::size_t>(i));
                           return text("reading step ", batch.step, " of epoch ", epoch,
                                       list.empty() ? "" : ", examples " + list, " failed");
                         });
    if (pins) pin(mine.fields);
  }
}

std::vector<std::int64_t> example_numbers(const DistributedBatch& batch, std::size_t share) {
  if (!batch.source || batch.source->plan().is_stream()) return {};
  const ShardPlan& plan = batch.source->plan();
  const Share own = plan.share(batch.step, batch.first_replica + static_cast<int>(share));
  const std::vector<std::int64_t> order = plan.order(batch.epoch);
  const auto first = order.begin() + own.offset;
  return {first, first + own.count};
}

std::string example_list(const DistributedBatch& batch, std::size_t share) {
  constexpr std::size_t kMost = 8;
  std::vector<std::int64_t> numbers = example_numbers(batch, share);
  const bool is_cut = numbers.size() > kMost;
  if (is_cut) numbers.resize(kMost);
  const std::string list = join(numbers, ", ", [](std::int64_t number) { return text(number); });
  return is_cut ? list + ", ..." : list;
}

DistributedBatch read_again(const DistributedBatch& batch, const detail::ReplicaRange& range) {
  const at::NoGradGuard no_gradients;
  const auto steps = batch.source->open({batch.epoch, batch.step, false, batch.place});
  StepDraw draw;
  TROUPE_CHECK(steps->draw(draw) && draw.step == batch.step);
  DistributedBatch again;
  gather(batch.source, *steps, draw, batch.epoch, range, again);
  return again;
}

namespace detail {

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

}  // namespace detail
}  // namespace troupe
