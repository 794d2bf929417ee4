// What the loader does with memory: batches are gathered into the tensors of earlier ones, and only
// where nobody has those any more.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/counted_allocator.h"
#include "tests/support/eventually.h"
#include "tests/support/torch_prelude.h"
#include "troupe/data/loader.h"
#include "troupe/data/shard_plan.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void count_one() {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
}

/// Counts every allocation of this process, by any thread, while it lives.
class AllocationCount {
 public:
  AllocationCount() {
    troupe::testing::CountedAllocator::install([](std::size_t) { count_one(); });
    allocations = 0;
    counting = true;
  }
  ~AllocationCount() { counting = false; }
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;
  [[nodiscard]] int count() const { return allocations; }
};

}  // namespace

void* operator new(std::size_t bytes) {
  count_one();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// Inlined, they would be std::free() of what an operator new gave, which g++ warns of.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using troupe::DistributedBatch;
using troupe::DistributedDataset;
using troupe::TensorDataset;

constexpr std::int64_t kExamples = 1000;

std::shared_ptr<const TensorDataset> pictures() {
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{
          torch::arange(kExamples * 12).remainder(251).to(torch::kByte).view({kExamples, 1, 3, 4}),
          torch::arange(kExamples)},
      troupe::ByteScale{0.5, 1});
}

/// Counts the batches that were read.
class Counted final : public troupe::Dataset {
 public:
  explicit Counted(std::shared_ptr<const troupe::Dataset> real) : real_(std::move(real)) {}
  [[nodiscard]] std::int64_t size() const override { return real_->size(); }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    return real_->get(indices);
  }
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const override {
    real_->get_into(indices, fields);
    ++batches_;
  }
  [[nodiscard]] int batches() const { return batches_; }

 private:
  const std::shared_ptr<const troupe::Dataset> real_;
  mutable std::atomic<int> batches_{0};
};

DistributedDataset over(std::shared_ptr<const troupe::Dataset> dataset, int replicas = 1) {
  troupe::ShardPlanOptions options;
  options.examples = dataset->size();
  options.global_batch = 10;
  options.replicas = replicas;
  return {std::move(dataset), troupe::ShardPlan(options), 0, replicas};
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("loader: in the steady state nothing is allocated, by no thread") {
    const auto whole = pictures();
    // Ten examples over four replicas: shares of 3, 3, 3 and 1.
    for (const auto& [examples, replicas] :
         {std::pair(std::shared_ptr<const troupe::Dataset>(whole), 1),
          std::pair(troupe::take(whole, 100, 800), 1),
          std::pair(std::shared_ptr<const troupe::Dataset>(whole), 2)}) {
      CAPTURE(replicas);
      const auto dataset = std::make_shared<Counted>(examples);
      const DistributedDataset data = over(dataset, replicas);
      troupe::Epoch epoch = data.epoch(0);
      auto step = epoch.begin();
      // Until it has read as far ahead as it may, and so has as many tensors as it ever needs.
      const int read = replicas * (1 + troupe::LoaderOptions().prefetch_steps);
      REQUIRE(troupe::testing::eventually([&] { return dataset->batches() == read; }));
      for (int i = 0; i < 10; ++i) ++step;
      int counted = 0;
      {
        const AllocationCount count;
        for (int i = 0; i < 50; ++i) ++step;
        counted = count.count();
      }
      CHECK(counted == 0);
      CHECK((*step).step == 60);
    }
    const AllocationCount count;
    (void)torch::zeros({3});
    CHECK(count.count() >= 2);  // the count sees a tensor and its memory
  }

  TEST_CASE("loader: what is gathered into used memory is what is gathered into new") {
    const DistributedDataset data = over(pictures(), 3);  // shares of 4, 4 and 2
    const auto order = data.plan().order(4);
    std::set<const void*> memory;
    for (const DistributedBatch& batch : data.epoch(4)) {
      for (int replica = 0; replica < 3; ++replica) {
        const auto share = data.plan().share(batch.step, replica);
        const auto& fields = batch.replicas[static_cast<std::size_t>(replica)].fields;
        const std::vector<std::int64_t> rows(order.begin() + share.offset,
                                             order.begin() + share.offset + share.count);
        CHECK(torch::equal(fields[1], torch::tensor(rows, torch::kLong)));
        const auto fresh = pictures()->get(fields[1]);
        CHECK(torch::equal(fields[0], fresh[0]));
        memory.insert(fields[0].data_ptr());
        fields[0].fill_(-1);  // a step may write into its fields
      }
    }
    CHECK(memory.size() <= 12);  // of 300: four steps of three replicas
  }

  TEST_CASE("loader: tensors that somebody keeps are left alone") {
    const DistributedDataset data = over(pictures());
    std::vector<at::Tensor> kept;    // the tensor itself
    std::vector<at::Tensor> views;   // a view of its memory
    std::vector<at::Tensor> graphs;  // what autograd needs for backward
    std::vector<at::Tensor> copies;
    const at::Tensor weight = torch::ones({12}).requires_grad_();
    for (const DistributedBatch& batch : data.epoch(0)) {
      const at::Tensor& images = batch.replicas[0].fields[0];
      copies.push_back(images.clone());
      switch (batch.step % 3) {
        case 0:
          kept.push_back(images);
          break;
        case 1:
          views.push_back(images.view({10, 12}));
          break;
        default:
          graphs.push_back((images.view({10, 12}) * weight).sum());
      }
    }
    for (std::size_t step = 0; step < copies.size(); ++step) {
      const std::size_t i = step / 3;
      if (step % 3 == 0) CHECK(torch::equal(kept[i], copies[step]));
      if (step % 3 == 1) CHECK(torch::equal(views[i], copies[step].view({10, 12})));
      if (step % 3 == 2) {
        weight.mutable_grad() = at::Tensor();
        graphs[i].backward();
        CHECK(torch::equal(weight.grad(), copies[step].view({10, 12}).sum(0)));
      }
    }
  }

  TEST_CASE("loader: a batch that gradients were asked for is not used again") {
    for (const DistributedBatch& batch : over(pictures()).epoch(0)) {
      const at::Tensor& images = batch.replicas[0].fields[0];
      CHECK_FALSE(images.requires_grad());
      CHECK_FALSE(images.grad().defined());
      images.requires_grad_();
      images.square().sum().backward();
    }
  }

  TEST_CASE("loader: a batch of which a step changed the shape is not used again") {
    for (const DistributedBatch& batch : over(pictures()).epoch(0)) {
      const at::Tensor& images = batch.replicas[0].fields[0];
      REQUIRE((images.sizes() == at::IntArrayRef({10, 1, 3, 4})));
      REQUIRE(images.is_contiguous());
      images.squeeze_(1);
      if (batch.step % 2 == 0) images.transpose_(1, 2);
    }
  }
}
