#include "troupe/data/stream.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/shard_plan.h"
#include "troupe/data/step_source.h"

namespace troupe {
namespace {

/// Reads window after window: some blocks, whose examples are shuffled. What was drawn of one
/// leaves it, so memory holds one window and the steps that were drawn.
class StreamSteps final : public EpochSteps {
 public:
  StreamSteps(const StreamDataset& stream, const ShardPlan& plan, const DataPosition& from)
      : stream_(stream),
        plan_(plan.options()),
        is_shuffled_(plan_.sampler.name == shuffled().name),
        from_(from),
        step_(from.step),
        next_block_(from.place.block),
        begin_(from.place) {}

  [[nodiscard]] bool draw(StepDraw& next) override {
    if (from_.at_end) return false;
    if (!std::exchange(begun_, true)) begin();
    if (!plan_.drop_last) {
      next.read.clear();
      next.place = read_step(next.read);
      next.last = !has_more();
    } else {
      // Whether it is the last one is known when the one after it was read.
      next.read = std::exchange(ahead_, {});
      next.place = ahead_place_;
      ahead_place_ = read_step(ahead_);
      next.last = is_short(ahead_);
    }
    if (next.read.empty() || (plan_.drop_last && is_short(next.read))) return false;
    next.step = step_++;
    next.examples = static_cast<std::int64_t>(next.read.size());
    return true;
  }

  void gather(StepDraw& step, const Share& in_step,
              std::vector<at::Tensor>& fields) const override {
    const auto first = step.read.begin() + in_step.offset;
    fields.clear();
    fields =
        stream_.batch({first, first + in_step.count},
                      {plan_.seed, from_.epoch, step.step * plan_.global_batch + in_step.offset});
  }

 private:
  /// Goes on from where the place is to the step.
  void begin() {
    if (is_shuffled_ && stream_.options().blocks > 0) {
      blocks_ = shuffled().order({stream_.options().blocks, 1, plan_.seed, from_.epoch});
    }
    const std::int64_t skipped = from_.step * plan_.global_batch - begin_.before;
    TROUPE_CHECK(skipped >= 0);
    for (std::int64_t i = 0; i < skipped; ++i) {
      if (!has_more()) {
        throw DataError(text("the stream has ended before step ", from_.step, " of epoch ",
                             from_.epoch, ", from which training resumes."),
                        "resume with the stream of the run that saved the position.");
      }
      window_[taken_++].clear();
    }
    if (!has_more() && from_.step == 0) {
      throw DataError("the stream has no examples.",
                      "return at least one from StreamDataset's first blocks.");
    }
    if (!plan_.drop_last) return;
    ahead_place_ = read_step(ahead_);
    if (!is_short(ahead_) || from_.step > 0) return;
    throw DataError(text("the stream has ", ahead_.size(), " examples, and a short last batch is ",
                         "left out (--drop-last)."),
                    text("lower --batch-size, which is ", plan_.global_batch, "."));
  }

  [[nodiscard]] bool is_short(const std::vector<Example>& step) const {
    return static_cast<std::int64_t>(step.size()) < plan_.global_batch;
  }

  /// The next step's examples, as many as there are. Returns its place.
  detail::StreamPlace read_step(std::vector<Example>& step) {
    (void)has_more();  // moves the place to the window that the step begins in
    const detail::StreamPlace place = begin_;
    while (is_short(step) && has_more()) step.push_back(std::move(window_[taken_++]));
    return place;
  }

  /// Whether an example follows; reads it.
  bool has_more() {
    while (taken_ == window_.size()) {
      begin_ = {next_block_, begin_.before + static_cast<std::int64_t>(window_.size())};
      window_.clear();
      taken_ = 0;
      if (!read_window()) break;
    }
    return taken_ < window_.size();
  }

  /// False: the stream has ended, and there may be something in the window.
  bool read_window() {
    const StreamOptions& options = stream_.options();
    bool goes_on = true;
    for (std::int64_t i = 0; i < options.window && goes_on; ++i) {
      auto block = next_block();
      goes_on = block.has_value();
      if (!goes_on) break;
      std::move(block->begin(), block->end(), std::back_inserter(window_));
    }
    if (is_shuffled_) {
      // Apart from the order of the blocks and the examples' own numbers.
      const DrawPlace place{~plan_.seed, from_.epoch, begin_.block};
      std::mt19937_64 random(place.random(0).next());
      detail::shuffle(window_.begin(), window_.end(), random);
    }
    return goes_on;
  }

  std::optional<std::vector<Example>> next_block() {
    const std::int64_t known = stream_.options().blocks;
    if (ended_ || (known > 0 && next_block_ >= known)) return std::nullopt;
    const std::int64_t number =
        blocks_.empty() ? next_block_ : blocks_[static_cast<std::size_t>(next_block_)];
    auto block = stream_.block(number);
    ended_ = !block;
    if (block) ++next_block_;
    return block;
  }

  const StreamDataset& stream_;
  const ShardPlanOptions& plan_;
  const bool is_shuffled_;
  const DataPosition from_;
  bool begun_ = false;
  std::int64_t step_;
  std::vector<std::int64_t> blocks_;  // their order; empty: as they come
  std::int64_t next_block_;           // in that order
  bool ended_ = false;
  detail::StreamPlace begin_;    // of the window
  std::vector<Example> window_;  // from taken_ on not drawn yet
  std::size_t taken_ = 0;
  std::vector<Example> ahead_;  // with drop_last, the step after the one that was drawn
  detail::StreamPlace ahead_place_;
};

}  // namespace

StreamDataset::StreamDataset(std::function<std::optional<std::vector<Example>>(std::int64_t)> read,
                             StreamOptions options)
    : read_(std::move(read)), options_(std::move(options)) {
  if (!read_ || !options_.collate || options_.blocks < 0 || options_.window < 1) {
    throw ConfigError(text("a StreamDataset has ", options_.blocks, " blocks and a window of ",
                           options_.window, ", or a null function."),
                      "give functions to read and collate, 0 blocks or more, and a window of at "
                      "least one.");
  }
}

std::optional<std::vector<Example>> StreamDataset::block(std::int64_t number) const {
  const std::lock_guard<std::mutex> alone(in_use_);
  auto block = read_(number);
  if (block || options_.blocks == 0) return block;
  throw DataError(text("block ", number, " of a stream is missing, which has ", options_.blocks,
                       " blocks by its StreamOptions."),
                  "return every block below StreamOptions::blocks, or leave that 0.");
}

std::vector<at::Tensor> StreamDataset::batch(std::vector<Example> examples,
                                             const DrawPlace& place) const {
  for (std::size_t i = 0; options_.transform && i < examples.size(); ++i) {
    ExampleRandom random = place.random(static_cast<std::int64_t>(i));
    examples[i] = options_.transform(std::move(examples[i]), random);
  }
  auto fields = options_.collate(examples);
  detail::check_fields(fields, static_cast<std::int64_t>(examples.size()));
  return fields;
}

std::vector<at::Tensor> StreamDataset::get(const at::Tensor& indices) const {
  const auto* const wanted = indices.data_ptr<std::int64_t>();
  const auto count = static_cast<std::size_t>(indices.size(0));
  const std::int64_t end = *std::max_element(wanted, wanted + count) + 1;
  std::vector<Example> found(count);
  std::int64_t before = 0;
  for (std::int64_t number = 0; before < end; ++number) {
    const bool exists = options_.blocks == 0 || number < options_.blocks;
    const std::optional<std::vector<Example>> read = exists ? block(number) : std::nullopt;
    if (!read) {
      throw DataError(text("Example ", end - 1, " was asked for, of a stream of ", before, "."),
                      "ask for examples that the stream has.");
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t in_block = wanted[i] - before;
      if (in_block < 0 || in_block >= static_cast<std::int64_t>(read->size())) continue;
      found[i] = (*read)[static_cast<std::size_t>(in_block)];
    }
    before += static_cast<std::int64_t>(read->size());
  }
  return batch(std::move(found), {});
}

std::unique_ptr<EpochSteps> detail::open_stream(const StreamDataset& stream, const ShardPlan& plan,
                                                const DataPosition& from) {
  return std::make_unique<StreamSteps>(stream, plan, from);
}

}  // namespace troupe
