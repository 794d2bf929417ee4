// What our code asks of a device, on one without hardware: in which order gradients are made,
// handed over, summed and read, and where the host waits. The back end works as NCCL's does.
#include "tests/support/late_device.h"

#include <limits>

#include "tests/support/run_ranks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/gradient_norm.h"
#include "troupe/hooks/losses.h"
#include "troupe/hooks/metrics.h"
#include "troupe/strategies/engines/c10d_engine.h"
#include "troupe/strategies/gradients/flat_gradients.h"
#include "troupe/strategies/gradients/overlapped_sum.h"

namespace late_device_test {

namespace {

using troupe::NamedTensor;
using troupe::WorkerGroup;
using troupe::detail::C10dEngine;
using troupe::detail::Engine;
using troupe::detail::OverlappedSum;
using troupe::detail::Reach;
using troupe::detail::ReplicaSum;
using troupe::detail::ReplicaThreads;
using troupe::detail::Summand;
using troupe::testing::kLate;
using troupe::testing::late;
using troupe::testing::run_group;

constexpr int kWorkers = 2;
constexpr auto kLimit = std::chrono::seconds(60);

c10::Device device_of(const WorkerGroup& group) {
  return {kLate, static_cast<c10::DeviceIndex>(group.rank())};
}
at::TensorOptions on(const c10::Device& device) {
  return at::TensorOptions(at::kFloat).device(device);
}
c10::Stream current(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(kLate).getStream(device);
}
std::vector<float> numbers(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU);
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

/// Where the devices' sums meet: each gives its values and takes the total.
class Wire {
 public:
  void sum(int rank, float* values, std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    given_.at(static_cast<std::size_t>(rank)).assign(values, values + count);
    const int round = round_;
    if (++arrived_ == kWorkers) {
      total_.assign(count, 0);
      for (const auto& part : given_) {
        for (std::size_t i = 0; i < count; ++i) total_[i] += part.at(i);
      }
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait_for(lock, kLimit, [&] { return round_ != round; });
    }
    std::copy(total_.begin(), total_.end(), values);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<float>, kWorkers> given_;
  std::vector<float> total_;
  int arrived_ = 0;
  int round_ = 0;
};

/// As ProcessGroupNCCL: an event on the caller's stream, for which the library's own stream waits
/// before it sums; complete when a second event, behind the sum, is reached; wait() has the
/// caller's stream wait for that one, and not the host.
struct LateSum {
  explicit LateSum(const c10::Device& where) : device(where) {}

  [[nodiscard]] bool isCompleted() const { return end.query(); }
  [[nodiscard]] static std::exception_ptr exception() { return nullptr; }
  bool wait() {
    end.block(current(device));
    return true;
  }

  c10::Device device;
  c10::Event begin{kLate};
  c10::Event end{kLate};
};

class LateNccl final : public c10::intrusive_ptr_target {
 public:
  LateNccl(int rank, Wire& wire, std::function<void()> handed_over)
      : rank_(rank), wire_(wire), handed_over_(std::move(handed_over)) {}

  [[nodiscard]] std::shared_ptr<LateSum> allreduce(std::vector<at::Tensor>& tensors) {
    const at::Tensor& values = tensors.at(0);
    const c10::Stream own(c10::Stream::UNSAFE, values.device(), 1);
    auto sum = std::make_shared<LateSum>(values.device());
    sum->begin.record(current(values.device()));
    sum->begin.block(own);
    late(own).add([this, values] {
      wire_.sum(rank_, static_cast<float*>(values.data_ptr()),
                static_cast<std::size_t>(values.numel()));
    });
    sum->end.record(own);
    handed_over_();
    return sum;
  }

 private:
  const int rank_;
  Wire& wire_;
  const std::function<void()> handed_over_;
};

std::unique_ptr<Engine> make_engine(
    WorkerGroup& group, Wire& wire, const std::function<void()>& handed_over = [] {}) {
  return std::make_unique<C10dEngine<LateNccl>>(
      group, "nccl", Reach::device, [&, handed_over](const auto&) {
        return c10::make_intrusive<LateNccl>(group.rank(), wire, handed_over);
      });
}

void forget_journal(const c10::Device& device) {
  late(device).journal.clear();
  late(device).host_waits = 0;
}

/// Gradients of norm 5, 12 and 0.
std::vector<NamedTensor> three(const c10::Device& device) {
  std::vector<NamedTensor> parameters;
  for (const auto& [name, values] : std::vector<std::pair<std::string, std::vector<float>>>{
           {"a", {3, 4}}, {"b", {12}}, {"c", {0, 0}}}) {
    const auto size = static_cast<std::int64_t>(values.size());
    parameters.emplace_back(name, at::zeros({size}, on(device)).set_requires_grad(true));
    parameters.back().second.mutable_grad() = torch::tensor(values).to(device);
  }
  return parameters;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("late_device: gradients are handed over to nccl while the device still computes them") {
    Wire wire;
    run_group(kWorkers, [&](WorkerGroup& group) {
      const c10::Device device = device_of(group);
      std::promise<void> handed_over;
      std::shared_future<void> gate = handed_over.get_future().share();
      const auto engine = make_engine(group, wire, [&] { handed_over.set_value(); });
      const at::Tensor flat = at::zeros({4}, on(device));
      forget_journal(device);
      std::atomic<bool> in_time{false};
      late(current(device)).add([&, gate, rank = group.rank()] {
        in_time = gate.wait_for(kLimit) == std::future_status::ready;
        std::fill_n(static_cast<float*>(flat.data_ptr()), 4, static_cast<float>(rank + 1));
      });
      engine->all_reduce(flat, Summand("gradients"));
      CHECK(in_time);  // else the host waited for them
      CHECK(late(device).host_waits == 0);
      CHECK(late(device).journal ==
            std::vector<std::string>{"0 records", "1 waits", "1 records", "0 waits"});
      CHECK(numbers(flat) == std::vector<float>{3, 3, 3, 3});
    });
  }

  TEST_CASE("late_device: every sum has one event of its own on the stream that computes") {
    Wire wire;
    run_group(kWorkers, [&](WorkerGroup& group) {
      const c10::Device device = device_of(group);
      const auto engine = make_engine(group, wire);
      const at::Tensor flat = at::ones({6}, on(device));
      forget_journal(device);
      for (const std::int64_t begin : {4, 2, 0}) {
        engine->all_reduce(flat.narrow(0, begin, 2), Summand("a slice"));
      }
      const auto& journal = late(device).journal;
      CHECK(std::count(journal.begin(), journal.end(), "0 records") == 3);
      CHECK(std::count(journal.begin(), journal.end(), "1 waits") == 3);
      CHECK(late(device).host_waits == 0);
      CHECK(numbers(flat) == std::vector<float>(6, 2));
    });
  }

  TEST_CASE("late_device: the native engine reads a device's values once they are there") {
    run_group(kWorkers, [&](WorkerGroup& group) {
      const c10::Device device = device_of(group);
      const auto engine = troupe::detail::make_native_engine(group, std::nullopt);
      const at::Tensor flat = engine->make_buffer(4, on(device));
      CHECK(flat.device() == device);
      forget_journal(device);
      late(current(device)).add([&flat, rank = group.rank()] {
        std::fill_n(static_cast<float*>(flat.data_ptr()), 4, static_cast<float>(rank + 1));
      });
      engine->all_reduce(flat, Summand("gradients"));
      CHECK(late(device).host_waits.load() <= 1);  // LibTorch 1.13 needs none here
      CHECK(numbers(flat) == std::vector<float>{3, 3, 3, 3});
    });
  }

  TEST_CASE("late_device: gradients of a device are summed, by either engine") {
    for (const bool native : {true, false}) {
      CAPTURE(native);
      Wire wire;
      run_group(kWorkers, [&](WorkerGroup& group) {
        const c10::Device device = device_of(group);
        const auto engine = native ? troupe::detail::make_native_engine(group, std::nullopt)
                                   : make_engine(group, wire);
        ReplicaThreads threads{ReplicaThreads::Options{}};
        ReplicaSum sum(threads, troupe::TreeCut(1));
        sum.use(*engine, /*during_backward=*/false, std::make_shared<troupe::detail::WaitMeter>());
        OverlappedSum update(sum, {0, group.rank(), kWorkers}, {});
        std::vector<NamedTensor> parameters;
        for (const char* name : {"used", "by one", "unused"}) {
          parameters.emplace_back(name, at::zeros({2}, on(device)).set_requires_grad(true));
        }
        const auto give = [&](int parameter, float value) {
          parameters[static_cast<std::size_t>(parameter)].second.mutable_grad() =
              at::full({2}, value, on(device));
        };
        give(0, static_cast<float>(group.rank() + 1));
        if (group.rank() == 1) give(1, 5);
        forget_journal(device);
        update.reduce(parameters);
        // What was used and whether all is finite, in one read; the native engine reads the values.
        CHECK(late(device).host_waits == (native ? 2 : 1));
        CHECK(parameters[0].second.grad().device() == device);
        CHECK(numbers(parameters[0].second.grad()) == std::vector<float>{3, 3});
        CHECK(numbers(parameters[1].second.grad()) == std::vector<float>{5, 5});
        CHECK(!parameters[2].second.grad().defined());

        give(0, group.rank() == 0 ? std::numeric_limits<float>::infinity() : 1);
        CHECK_THROWS_AS(update.reduce(parameters), troupe::NonFiniteError);
      });
    }
  }

  TEST_CASE("late_device: whether all gradients are finite is one wait of the host") {
    const c10::Device device(kLate, 0);
    auto parameters = three(device);
    forget_journal(device);
    troupe::detail::check_finite_gradients(parameters);
    CHECK(late(device).host_waits.load() <= 1);  // LibTorch 1.13 needs none here
    // A norm that is beyond float32 is of values that are finite.
    parameters[1].second.mutable_grad() = at::full({3}, 3e38, on(device));
    CHECK_NOTHROW(troupe::detail::check_finite_gradients(parameters));
    parameters[1].second.mutable_grad() =
        at::full({3}, std::numeric_limits<float>::quiet_NaN(), on(device));
    CHECK_THROWS_WITH_AS(troupe::detail::check_finite_gradients(parameters),
                         doctest::Contains("\"b\""), troupe::NonFiniteError);
  }

  TEST_CASE("late_device: the norm of all gradients is one wait of the host") {
    const c10::Device device(kLate, 0);
    auto parameters = three(device);
    forget_journal(device);
    CHECK(troupe::detail::gradient_norm(parameters) == doctest::Approx(13));
    CHECK(late(device).host_waits.load() <= 1);  // LibTorch 1.13 needs none here
    parameters[1].second.mutable_grad() = at::full({1}, 3e38, on(device));
    CHECK(troupe::detail::gradient_norm(parameters) == doctest::Approx(3e38));
  }

  TEST_CASE("late_device: all losses of a step are one wait of the host") {
    const c10::Device device(kLate, 0);
    const auto scalar = [&](float value) { return at::full({}, value, on(device)); };
    std::vector<troupe::StepResult> results = {{{"g", scalar(1)}, {"d", scalar(2)}},
                                               {{"g", scalar(3)}, {"d", scalar(4)}}};
    forget_journal(device);
    troupe::detail::to_host(results);
    CHECK(late(device).host_waits.load() <= 1);  // LibTorch 1.13 needs none here
    double expected = 1;
    for (const auto& result : results) {
      for (const auto& [name, loss] : result.losses) {
        CHECK(loss.is_cpu());
        CHECK(loss.item<double>() == expected++);
      }
    }
  }

  TEST_CASE("late_device: a metric's sums of a checkpoint go where the next ones are made") {
    const c10::Device device(kLate, 0);
    troupe::MetricSet metrics;
    metrics.add<troupe::Mean>("mean");
    metrics.set_sums(std::vector<double>{10, 4});
    const at::Tensor values = torch::tensor({1.0F, 2.0F}).to(device);
    forget_journal(device);
    metrics.at("mean").update(values);
    metrics.at("mean").update(values);
    CHECK(late(device).host_waits == 0);
    CHECK(metrics.sums() == std::vector<double>{16, 8});
  }
}

}  // namespace late_device_test
