// What a parameter server holds, without a network: its optimisers take the steps of one device on
// parts of the tensors, and states are divided, put together and refused.
#include "troupe/strategies/parameter_server/tensor_store.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/support/counted_allocator.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/strategies/server_hooks.h"
#include "troupe/core/error.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/strategies/parameter_server/shard_states.h"
#include "troupe/strategies/parameter_server/stale_step.h"
#include "troupe/strategies/replicas/local_replicas.h"

namespace tensor_store_test {

using troupe::Span;
using troupe::testing::ServerHooks;
namespace inner = troupe::detail;

namespace {

class NoUpdate final : public troupe::ParameterUpdate {
 public:
  void reduce(const std::vector<troupe::NamedTensor>&) override {}
};
NoUpdate no_update;

troupe::ServerOptions tiny_shards() {
  troupe::ServerOptions options;
  options.min_shard_bytes = 8;
  return options;
}

std::unique_ptr<troupe::Replica> make(const troupe::Hooks& hooks) {
  return inner::make_replica(hooks, {}, 1, no_update, {});
}

/// One process's part, as workers and servers make it.
struct Part {
  Part(const troupe::Hooks& hooks, int servers)
      : replica(make(hooks)), served(inner::serve(*replica, tiny_shards(), servers)) {}
  std::unique_ptr<troupe::Replica> replica;
  inner::ServedParameters served;
};

struct Server : Part {
  Server(const troupe::Hooks& hooks, int servers, int index)
      : Part(hooks, servers), store(*replica, served, index) {}
  inner::TensorStore store;
};

/// One wide tensor, on one shard.
class WideHooks final : public troupe::testing::TinyHooks {
 public:
  static constexpr std::int64_t kWidth = 4096;
  struct Net final : torch::nn::Module {
    torch::Tensor wide = register_parameter("wide", torch::zeros({kWidth}));
  };
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.1)};
  }
};
std::atomic<int> wide_allocations{0};

at::Tensor values_of(const troupe::ParameterStore& store) {
  at::Tensor values = torch::empty({WideHooks::kWidth});
  store.read(0, {}, {static_cast<std::byte*>(values.data_ptr()), values.nbytes()});
  return values;
}

/// What a replica's optimisers hold, bit for bit.
std::string optimizers_of(troupe::Replica& replica) {
  std::string all;
  for (const auto& name : replica.optimizer_names()) {
    std::vector<troupe::NamedTensor> tensors;
    all +=
        troupe::describe_optimizer(replica.optimizer(name), replica.parameters(), tensors).dump();
    for (const auto& [tensor_name, tensor] : tensors) {
      std::stringstream values;
      values << tensor_name << std::hexfloat;
      const auto flat = tensor.contiguous().view(-1);
      for (std::int64_t i = 0; i < flat.numel(); ++i) values << ' ' << flat[i].item<double>();
      all += values.str();
    }
  }
  return all;
}

/// A gradient that depends on the step.
at::Tensor gradient_of(const at::Tensor& parameter, int step) {
  const auto flat = torch::arange(parameter.numel(), torch::kFloat32);
  return torch::sin(flat * (0.7F + static_cast<float>(step))).view_as(parameter);
}

/// One step of optimiser `o` on one device and on the servers, with two pushes that add up to it.
void step_both(Part& device, std::vector<std::unique_ptr<Server>>& servers, int o, int step) {
  auto& optimizer = device.replica->optimizer(device.served.optimizers[static_cast<size_t>(o)]);
  std::vector<at::Tensor> kept;
  troupe::Push first;
  first.optimizer = o;
  for (auto& group : optimizer.param_groups()) {
    group.options().set_lr(group.options().get_lr() * 0.9);
    first.learning_rates.push_back(group.options().get_lr());
  }
  troupe::Push second = first;
  for (std::size_t i = 0; i < device.served.tensors.size(); ++i) {
    if (device.served.model.tensors[i].optimizer != o) continue;
    const at::Tensor& parameter = device.served.tensors[i].second;
    const at::Tensor one = gradient_of(parameter, step);
    const at::Tensor two = gradient_of(parameter, step + 100);
    parameter.mutable_grad() = one + two;
    for (const int shard : device.served.shards_of[i]) {
      for (auto* push : {&first, &second}) {
        kept.push_back(inner::rows_of(push == &first ? one : two,
                                      device.served.model.shards[static_cast<size_t>(shard)]));
        push->gradients.push_back(
            {shard,
             true,
             {},
             {static_cast<const std::byte*>(kept.back().data_ptr()), kept.back().nbytes()}});
      }
    }
  }
  optimizer.step();
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const auto own = [&](const troupe::Push& push) {
      troupe::Push part = push;
      part.gradients.clear();
      for (const auto& block : push.gradients) {
        const auto shard = static_cast<std::size_t>(block.shard);
        if (device.served.model.shards[shard].server == static_cast<int>(s)) {
          part.gradients.push_back(block);
        }
      }
      return part;
    };
    const troupe::Push a = own(first);
    const troupe::Push b = own(second);
    servers[s]->store.apply({&a, &b}, 1.0);
  }
}

std::vector<std::vector<std::byte>> states_of(std::vector<std::unique_ptr<Server>>& servers) {
  std::vector<std::vector<std::byte>> states;
  for (auto& server : servers) states.push_back(server->store.save());
  return states;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("tensor store: optimisers on shards take the steps of one device, bit for bit") {
    for (const char* kind : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "groups", "two"}) {
      for (const int count : {1, 2, 3}) {
        CAPTURE(kind);
        CAPTURE(count);
        const ServerHooks hooks(kind);
        Part device(hooks, count);
        const int optimizers = static_cast<int>(device.served.optimizers.size());
        std::vector<std::unique_ptr<Server>> servers;
        for (int s = 0; s < count; ++s) {
          servers.push_back(std::make_unique<Server>(hooks, count, s));
        }
        for (int step = 0; step < 4; ++step) {
          if (step == 2) {  // another set of servers takes over from the chief
            const auto states = inner::split_state(*device.replica, device.served, count);
            for (int s = 0; s < count; ++s) {
              const auto own = static_cast<std::size_t>(s);
              servers[own] = std::make_unique<Server>(hooks, count, s);
              servers[own]->store.load(states[own]);
            }
          }
          for (int o = 0; o < optimizers; ++o) step_both(device, servers, o, step);
        }
        Part back(hooks, count);
        for (int o = 0; o < optimizers; ++o) {  // options are the worker's own, so its rates, too
          const auto& name = back.served.optimizers[static_cast<size_t>(o)];
          auto& groups = device.replica->optimizer(name).param_groups();
          for (std::size_t g = 0; g < groups.size(); ++g) {
            back.replica->optimizer(name).param_groups()[g].options().set_lr(
                groups[g].options().get_lr());
          }
        }
        inner::merge_state(*back.replica, back.served, states_of(servers));
        CHECK(troupe::parameter_hash(*back.replica) == troupe::parameter_hash(*device.replica));
        CHECK(optimizers_of(*back.replica) == optimizers_of(*device.replica));
      }
    }
  }

  TEST_CASE("tensor store: rows that changed are read, a scale counts, other gradients do not") {
    const ServerHooks hooks("groups");  // in.* by SGD with momentum, at 0.03
    Server server(hooks, 1, 0);
    const int shard = server.served.shards_of[0].front();
    REQUIRE(server.served.model.tensors[0].name == "in.weight");
    const auto values = [&](const std::vector<std::int64_t>& rows) {
      std::vector<float> out(rows.empty() ? 7 : rows.size());
      server.store.read(shard, rows, troupe::as_writable_bytes(troupe::Span<float>(out)));
      return out;
    };
    const auto before = values({});
    std::vector<float> gradient(7, 2.0F);
    troupe::Push push;
    push.learning_rates = {0.5, 0.5};
    push.gradients.push_back(
        {shard, true, {}, troupe::as_bytes(troupe::Span<const float>(gradient))});
    server.store.apply({&push}, 0.25);
    CHECK(values({6, 2}) == std::vector<float>{before[6] - 0.25F, before[2] - 0.25F});
    CHECK(server.store.accepts(push));
    push.learning_rates = {0.5};
    CHECK_FALSE(server.store.accepts(push));
    push.learning_rates = {0.5, 0.5};
    push.optimizer = 7;
    CHECK_FALSE(server.store.accepts(push));
  }

  TEST_CASE("tensor store: a gradient that comes late makes a smaller step, and that one alone") {
    const ServerHooks hooks("groups");  // in.* by SGD with momentum 0.9
    Server server(hooks, 1, 0);
    const int shard = server.served.shards_of[0].front();
    const auto value = [&] {
      float out = 0;
      const std::vector<std::int64_t> rows = {3};
      server.store.read(shard, rows, troupe::as_writable_bytes(troupe::Span<float>(&out, 1)));
      return out;
    };
    std::vector<float> gradient(7, 1.0F);
    troupe::Push push;
    push.learning_rates = {1, 1};
    push.gradients.push_back(
        {shard, true, {}, troupe::as_bytes(troupe::Span<const float>(gradient))});
    const auto step = [&](std::int64_t missed) {
      const float before = value();
      push.missed = missed;
      server.store.apply({&push}, 1);
      return before - value();
    };
    CHECK(step(0) == doctest::Approx(1));                   // the sum of gradients: 1
    CHECK(step(2) == doctest::Approx(0.7 * 1 + 1));         // 1.7
    CHECK(step(0) == doctest::Approx(0.9 * 1.7 + 1));       // 2.53
    CHECK(step(19) == doctest::Approx(0.5).epsilon(1e-4));  // half the rate, no momentum
    CHECK(step(0) == doctest::Approx(1.9).epsilon(1e-4));
  }

  TEST_CASE("stale step: what a step comes to in the long run is divided by its age") {
    using inner::size_for_stale;
    for (const double momentum : {0.0, 0.5, 0.9, 0.99}) {
      for (const std::int64_t missed : {1, 2, 7, 30}) {
        CAPTURE(momentum);
        CAPTURE(missed);
        const auto size = size_for_stale({0.3, momentum}, missed);
        const double alone = 0.3 / (1 - momentum);
        CHECK(size.rate / (1 - size.momentum) ==
              doctest::Approx(alone / static_cast<double>(1 + missed)).epsilon(1e-5));
        CHECK(size.rate <= 0.3);
        CHECK((size.momentum > 0) == (momentum > 0));
        CHECK(size.momentum <= momentum);
      }
      const auto fresh = size_for_stale({0.3, momentum}, 0);
      CHECK(fresh.rate == 0.3);
      CHECK(fresh.momentum == momentum);
    }
  }

  TEST_CASE("tensor store: states that do not fit are refused, and bytes that are none") {
    const ServerHooks hooks("adam");
    Part chief(hooks, 2);
    const auto states = inner::split_state(*chief.replica, chief.served, 2);
    Server server(hooks, 2, 0);
    server.store.load(states[0]);
    const auto refused = [&](const std::vector<std::byte>& bytes) {
      CHECK_THROWS_AS(server.store.load(bytes), troupe::ConfigError);
    };
    refused(states[1]);
    Part other(ServerHooks("sgd"), 2);
    refused(inner::split_state(*other.replica, other.served, 2)[0]);
    for (std::size_t size = 0; size < states[0].size(); size += 13) {
      refused({states[0].begin(), states[0].begin() + static_cast<std::ptrdiff_t>(size)});
    }
    auto longer = states[0];
    longer.push_back({});
    refused(longer);
    // A tensor that says it is as large as can be.
    inner::ShardState huge;
    auto bytes = inner::write_state({huge.optimizers, {{"x", torch::zeros({2, 3})}}});
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const char* shape : {"[4611686018427387904,4]", "[-2,3]", "[9999]", "[\"a\"]"}) {
      std::string forged = text;
      const auto at = forged.find("[2,3]");
      REQUIRE(at != std::string::npos);
      forged.replace(at, 5, shape);
      std::uint64_t length = 0;
      std::memcpy(&length, forged.data(), 8);
      length += std::string(shape).size() - 5;
      std::memcpy(forged.data(), &length, 8);
      const auto* data = reinterpret_cast<const std::byte*>(forged.data());
      CHECK_THROWS_AS((void)inner::read_state({data, forged.size()}), troupe::ConfigError);
    }
  }

  TEST_CASE(
      "tensor store: a step takes no memory for gradients, which would leave a heap in pieces") {
    const WideHooks hooks;
    Part device(hooks, 1);
    std::vector<std::unique_ptr<Server>> servers;
    servers.push_back(std::make_unique<Server>(hooks, 1, 0));
    for (int step = 0; step < 3; ++step) step_both(device, servers, 0, step);
    troupe::Push push;
    push.learning_rates = {0.1};
    const auto gradient = torch::full({WideHooks::kWidth}, 0.5F);
    const Span<const std::byte> values(static_cast<const std::byte*>(gradient.data_ptr()),
                                       gradient.nbytes());
    push.gradients = {{0, true, {}, values}};
    const at::Tensor before = values_of(servers[0]->store);
    troupe::testing::CountedAllocator::install([](std::size_t bytes) {
      if (bytes >= WideHooks::kWidth * sizeof(float)) ++wide_allocations;
    });
    wide_allocations = 0;
    (void)torch::empty({WideHooks::kWidth});
    CHECK(wide_allocations == 1);
    servers[0]->store.apply({&push, &push}, 0.5);
    CHECK(wide_allocations == 1);
    CHECK(torch::allclose(values_of(servers[0]->store), before - 0.05));
  }

  TEST_CASE("tensor store: what servers cannot do is refused by name") {
    const auto replica = make(ServerHooks("unknown"));
    CHECK_THROWS_WITH_AS((void)inner::serve(*replica, {}, 1),
                         doctest::Contains("Unknown, and no such kind is registered"),
                         troupe::ConfigError);
  }
}

}  // namespace tensor_store_test
