// What Gloo and NCCL share, with a back end that fails as NCCL does: a sum that has failed counts
// as complete, its wait() is silent, and the reason is the last of several lines.
#include "troupe/strategies/engines/c10d_engine.h"

#include "tests/support/run_ranks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"

namespace c10d_engine_test {

namespace {

using troupe::WorkerGroup;
using troupe::detail::C10dEngine;
using troupe::detail::Reach;
using troupe::detail::Summand;
using troupe::testing::message_of;
using troupe::testing::test_options;
using troupe::testing::try_group;

constexpr auto kWords =
    "NCCL error in: ProcessGroupNCCL.cpp:77, invalid usage\nncclInvalidUsage: wrong.\n"
    "Last error:\nDuplicate GPU detected\n";
constexpr auto kInOneLine =
    "NCCL error in: ProcessGroupNCCL.cpp:77, invalid usage ncclInvalidUsage: wrong. "
    "Last error: Duplicate GPU detected";

struct FakeSum {
  std::exception_ptr failure;

  [[nodiscard]] bool isCompleted() const { return true; }
  [[nodiscard]] std::exception_ptr exception() const { return failure; }
  bool wait() const { return true; }
};

class FakeBackend final : public c10::intrusive_ptr_target {
 public:
  explicit FakeBackend(bool fails) : fails_(fails) {}

  [[nodiscard]] std::shared_ptr<FakeSum> allreduce(std::vector<at::Tensor>& /*tensors*/) const {
    FakeSum sum;
    if (fails_) sum.failure = std::make_exception_ptr(std::runtime_error(kWords));
    return std::make_shared<FakeSum>(sum);
  }

 private:
  const bool fails_;
};

bool has(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("c10d_engine: a sum that failed and says nothing of it is an error on all workers") {
    auto options = test_options();
    options.heartbeat_interval = std::chrono::milliseconds(50);
    options.heartbeat_timeout = std::chrono::milliseconds(2500);
    const auto errors = try_group(
        2,
        [](WorkerGroup& group) {
          C10dEngine<FakeBackend> engine(group, "nccl", Reach::device, [&group](const auto&) {
            return c10::make_intrusive<FakeBackend>(group.rank() == 0);
          });
          engine.all_reduce(torch::ones({4}), Summand("gradients"));
          if (group.rank() == 0) return;  // where nobody noticed: its connections close
          for (;;) group.check("");
        },
        options);
    CHECK(has(message_of(errors[0]),
              std::string("all_reduce by nccl of gradients failed: ") + kInOneLine + "."));
    CHECK_THROWS_AS(std::rethrow_exception(errors[0]), troupe::PeerLost);
    CHECK(has(message_of(errors[1]), "Duplicate GPU detected"));
  }

  TEST_CASE("c10d_engine: an error of LibTorch is shown in one line, without its stack") {
    std::string words;
    try {
      TORCH_CHECK(false, kWords);
    } catch (const std::exception& error) {
      words = troupe::detail::words_of(error);
    }
    CHECK(words == kInOneLine);
    CHECK(troupe::detail::words_of(std::runtime_error("no memory")) == "no memory");
    CHECK(troupe::detail::words_of(std::runtime_error("")).empty());
  }
}

}  // namespace c10d_engine_test
