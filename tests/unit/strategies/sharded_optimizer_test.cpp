// --shard-optimizer: every replica keeps the state of its part of the parameters alone, and no
// number depends on it. Ranks are threads over real loopback sockets.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "examples/muon/muon.h"
#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/gradients/optimizer_shards.h"
#include "troupe/strategies/gradients/optimizer_state.h"
#include "troupe/strategies/kinds/make_strategy.h"

namespace sharded_optimizer_test {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

namespace {

namespace o = torch::optim;
using MakeOptimizer = std::function<std::shared_ptr<o::Optimizer>(std::vector<at::Tensor>)>;

const std::vector<std::pair<const char*, MakeOptimizer>> kOptimizers = {
    {"SGD", [](auto p) { return std::make_shared<o::SGD>(p, o::SGDOptions(0.01).momentum(0.9)); }},
    {"Adam",
     [](auto p) { return std::make_shared<o::Adam>(p, o::AdamOptions(0.01).amsgrad(true)); }},
    {"AdamW", [](auto p) { return std::make_shared<o::AdamW>(p, o::AdamWOptions(0.01)); }},
    {"RMSprop",
     [](auto p) {
       return std::make_shared<o::RMSprop>(p, o::RMSpropOptions(0.01).momentum(0.9).centered(true));
     }},
    {"Adagrad", [](auto p) { return std::make_shared<o::Adagrad>(p, o::AdagradOptions(0.01)); }},
    // Whole matrices at once: no element's step depends on its own gradient alone.
    {"Muon", [](const std::vector<at::Tensor>& p) {
       std::vector<o::OptimizerParamGroup> groups;
       for (const bool matrices : {true, false}) {
         std::vector<at::Tensor> some;
         for (const at::Tensor& parameter : p) {
           if ((parameter.dim() >= 2) == matrices) some.push_back(parameter);
         }
         groups.emplace_back(some,
                             std::make_unique<MuonOptions>(MuonOptions(0.01).orthogonal(matrices)));
       }
       return std::make_shared<Muon>(std::move(groups), MuonOptions(0.01));
     }}};

const MakeOptimizer& make_adam = kOptimizers[1].second;

/// Parameters of all kinds: large ones, one of another type, one in another order of elements, one
/// whose memory something else uses, and one that no step uses.
struct Net final : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 400));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(400, 120));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(120, 1));
  at::Tensor offset;
  at::Tensor kernel = register_parameter(
      "kernel", torch::ones({8, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
  at::Tensor tied = register_parameter("tied", torch::full({7}, 0.5));
  at::Tensor unused = register_parameter("unused", torch::full({3}, 0.5));
  const at::Tensor view = tied.detach();

  explicit Net(at::ScalarType of_offset)
      : offset(register_parameter("offset", torch::full({1}, 0.25, of_offset))) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor parameter : parameters()) {
      const at::Tensor numbers = torch::arange(1, parameter.numel() + 1, torch::kFloat32);
      parameter.copy_((numbers * 1.7).sin().view(parameter.sizes()) * 0.05);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor scale = 1 + kernel.pow(2).mean() + view.mean() * tied.pow(2).sum();
    return out(torch::relu(middle(torch::relu(in(x))))) * scale + offset.to(torch::kFloat32);
  }
};

class NetHooks : public TinyHooks {
 public:
  explicit NetHooks(MakeOptimizer make, at::ScalarType of_offset = torch::kFloat64)
      : TinyHooks(10), make_(std::move(make)), of_offset_(of_offset) {}
  [[nodiscard]] Trainable create_model() const override {
    auto net = std::make_shared<Net>(of_offset_);
    return {net, make_(net->parameters())};
  }

 protected:
  [[nodiscard]] at::Tensor output(Replica& replica, const at::Tensor& x) const override {
    return replica.model<Net>().forward(x);
  }

 private:
  const MakeOptimizer make_;
  const at::ScalarType of_offset_;
};

/// How a group trains.
struct Width {
  int workers = 1;
  int replicas = 1;
  bool sharded = true;
  std::function<void(StrategyOptions&)> change = nullptr;
};

/// What one worker ends with.
struct Ending {
  std::string hash;
  std::int64_t state = 0;       // elements of tensors of each replica's optimiser, at most
  std::int64_t all_states = 0;  // of all of this worker's replicas
  bool in_place = true;         // all that may move has moved to memory of one kind
};

std::int64_t elements_of_state(Replica& replica) {
  std::vector<NamedTensor> tensors;
  (void)describe_optimizer(replica.optimizer(), replica.parameters(), tensors);
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : tensors) elements += tensor.numel();
  return elements;
}

TrainOptions options_in(const std::string& dir, std::int64_t max_steps) {
  TrainOptions options = quiet_options(max_steps, 4, dir);
  options.check_weights_every = 2;
  return options;
}

Ending train_one(Strategy& strategy, const Hooks& hooks, const TrainOptions& options) {
  auto state = strategy.create_state(hooks, options.seed);
  const auto data =
      strategy.distribute(hooks.create_datasets(), {options.batch_size, options.seed});
  (void)train(strategy, hooks, state, data, options);
  Ending ending;
  ending.hash = common_parameter_hash(strategy, state);
  for (const auto& replica : state.replicas) {
    const std::int64_t elements = elements_of_state(*replica);
    ending.state = std::max(ending.state, elements);
    ending.all_states += elements;
    const Net& net = replica->model<Net>();
    ending.in_place = ending.in_place && net.tied.is_alias_of(net.view) &&
                      net.in->weight.is_alias_of(net.middle->weight);
  }
  strategy.close();
  return ending;
}

std::unique_ptr<Strategy> make_strategy(const Width& width, int rank, std::uint16_t port) {
  StrategyOptions options =
      width.workers == 1 ? mirrored_options(width.replicas) : options_of(rank, width.workers, port);
  options.replicas = width.replicas;
  options.shard_optimizer = width.sharded;
  if (width.change) width.change(options);
  if (width.workers > 1) return make_multi_worker(options);
  return width.replicas > 1 ? make_mirrored(options) : make_one_device(options);
}

/// Every rank's.
std::vector<Ending> train_on(const Width& width, const Hooks& hooks, const TrainOptions& options) {
  std::vector<Ending> endings(static_cast<std::size_t>(width.workers));
  const auto port = free_port();
  run_ranks(width.workers, [&](int rank) {
    const auto strategy = make_strategy(width, rank, port);
    endings[static_cast<std::size_t>(rank)] = train_one(*strategy, hooks, options);
  });
  return endings;
}

std::string hash_of(const Width& width, const Hooks& hooks, const TrainOptions& options) {
  const auto endings = train_on(width, hooks, options);
  for (const Ending& ending : endings) CHECK(ending.hash == endings.front().hash);
  return endings.front().hash;
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("shard optimizer: every optimiser takes the undivided steps, bit for bit") {
    for (const auto& [name, make] : kOptimizers) {
      CAPTURE(name);
      const NetHooks hooks(make);
      for (const auto& [workers, replicas] :
           {std::pair(2, 1), std::pair(3, 1), std::pair(1, 2), std::pair(1, 3), std::pair(2, 2)}) {
        CAPTURE(workers);
        CAPTURE(replicas);
        CHECK(hash_of({workers, replicas, true}, hooks, options_in("", 5)) ==
              hash_of({workers, replicas, false}, hooks, options_in("", 5)));
      }
    }
  }

  TEST_CASE("shard optimizer: the bits depend neither on the options of a step nor on the engine") {
    const NetHooks hooks(make_adam);
    const std::vector<std::pair<const char*, std::function<void(StrategyOptions&)>>> changes = {
        {"clip", [](StrategyOptions& s) { s.step.clip_norm = 0.1; }},
        {"accumulate", [](StrategyOptions& s) { s.step.accumulate = 2; }},
        {"tcp", [](StrategyOptions& s) { s.group.transport = Transport::tcp; }},
        {"unix", [](StrategyOptions& s) { s.group.transport = Transport::unix_socket; }},
        {"shm", [](StrategyOptions& s) { s.group.transport = Transport::shared_memory; }},
        {"LibTorch's step", [](StrategyOptions& s) { s.buckets.fused_step = false; }},
        {"compress", [](StrategyOptions& s) { s.compress = Compression::bfloat16; }},
        {"virtual replicas", [](StrategyOptions& s) { s.virtual_replicas = 4; }},
        {"gloo", [](StrategyOptions& s) { s.communication = Communication::gloo; }}};
    for (const auto& [name, change] : changes) {
      if (std::string(name) == "gloo" && !troupe::detail::engine_lacks(Communication::gloo).empty())
        continue;
      CAPTURE(name);
      CHECK(hash_of({2, 1, true, change}, hooks, options_in("", 5)) ==
            hash_of({2, 1, false, change}, hooks, options_in("", 5)));
    }
  }

  TEST_CASE("shard optimizer: the bits are those of gradients that travel during backward, too") {
    struct Own final : NetHooks {  // its gradients do not travel
      using NetHooks::NetHooks;
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        const auto loss = validation_step(replica, batch);
        std::vector<at::Tensor> inputs;
        for (const auto& [name, parameter] : replica.parameters()) inputs.push_back(parameter);
        replica.apply_gradients(torch::autograd::grad({loss.losses.front().second}, inputs, {},
                                                      false, false, /*allow_unused=*/true));
        return loss;
      }
    };
    const NetHooks hooks(make_adam, torch::kFloat32);  // of one type, or there are no buckets
    const Own own(make_adam, torch::kFloat32);
    const auto change = [](StrategyOptions& s) {
      s.buckets.overlap = Overlap::on;
      s.buckets.first_bytes = s.buckets.bytes = 4096;
    };
    for (const NetHooks* each : {&hooks, static_cast<const NetHooks*>(&own)}) {
      CHECK(hash_of({2, 1, true, change}, *each, options_in("", 5)) ==
            hash_of({2, 1, false, change}, *each, options_in("", 5)));
    }
  }

  TEST_CASE("shard optimizer: a replica has the sums that its step needs, and all where wanted") {
    class Looks final : public NetHooks {
     public:
      Looks() : NetHooks(make_adam) {}
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        const std::int64_t step = replica.progress().step;
        troupe::detail::ReplicaDriver(replica).keep_gradients(step == 3 &&
                                                              replica.place().index == 1);
        const StepResult result = NetHooks::train_step(replica, batch);
        std::set<std::string> names;
        for (const auto& [name, parameter] : replica.parameters()) {
          if (parameter.grad().defined()) names.insert(name);
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        all[step].push_back(troupe::detail::ReplicaDriver(replica).has_all_gradients());
        with_gradient[step].push_back(names);
        return result;
      }
      mutable std::map<std::int64_t, std::vector<bool>> all;
      mutable std::map<std::int64_t, std::vector<std::set<std::string>>> with_gradient;

     private:
      mutable std::mutex mutex_;
    };
    for (const auto& [workers, replicas] : {std::pair(2, 1), std::pair(1, 2)}) {
      CAPTURE(workers);
      const Looks hooks;
      (void)train_on({workers, replicas, true}, hooks, options_in("", 6));
      for (std::int64_t step = 0; step < 6; ++step) {
        CAPTURE(step);
        // The first, and the one after that in which one replica asked.
        const bool whole = step == 0 || step == 4;
        CHECK(hooks.all[step] == std::vector<bool>(2, whole));
        auto first = hooks.with_gradient[step][0];
        const auto& second = hooks.with_gradient[step][1];
        if (whole) CHECK(first == second);
        CHECK(first.size() + second.size() == (whole ? 18 : 9));
        first.insert(second.begin(), second.end());
        CHECK(first.size() == 9);
      }
    }
  }

  TEST_CASE(
      "shard optimizer: every replica names the gradient that is not finite, wherever it is") {
    class Poisoned final : public NetHooks {
     public:
      explicit Poisoned(const char* name) : NetHooks(make_adam, torch::kFloat32), name_(name) {}
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        auto loss = validation_step(replica, batch).losses.front().second;
        for (const auto& [name, parameter] : replica.parameters()) {
          const bool is_bad =
              replica.progress().step == 2 && replica.place().index == 0 && name == name_;
          if (is_bad) loss = loss + (parameter * INFINITY).sum();
        }
        replica.apply_gradients(loss);
        return loss;
      }

     private:
      const std::string name_;
    };
    for (const char* name : {"middle.weight", "in.weight", "tied"}) {  // of several owners
      for (const auto& [workers, replicas] : {std::pair(2, 1), std::pair(1, 2)}) {
        for (const Overlap overlap : {Overlap::off, Overlap::on}) {
          CAPTURE(name);
          CAPTURE(workers);
          const Poisoned hooks(name);
          const Width width{workers, replicas, true, [overlap = overlap](StrategyOptions& s) {
                              if (s.replicas == 1) s.buckets.overlap = overlap;
                              s.buckets.first_bytes = s.buckets.bytes = 4096;
                            }};
          const auto port = free_port();
          const auto errors = try_ranks(workers, [&](int rank) {
            (void)train_one(*make_strategy(width, rank, port), hooks, options_in("", 5));
          });
          for (const auto& error : errors) {
            CHECK(is<NonFiniteError>(error));
            CHECK(has(message_of(error),
                      text("the gradient of parameter \"", name, "\" is not finite")));
          }
        }
      }
    }
  }

  TEST_CASE("shard optimizer: replicas keep state of other parameters, about as much each") {
    const NetHooks hooks(kOptimizers[2].second);
    const auto whole = train_on({2, 1, false}, hooks, options_in("", 3));
    const auto parts = train_on({2, 1, true}, hooks, options_in("", 3));
    CHECK(parts[0].all_states + parts[1].all_states == whole[0].state);
    const auto replicas = train_on({1, 2, true}, hooks, options_in("", 3));
    CHECK(replicas[0].all_states == whole[0].state);
    CHECK(replicas[0].state < whole[0].state);
    for (const Ending& ending : parts) CHECK(ending.in_place);
    CHECK(replicas[0].in_place);
  }

  TEST_CASE("shard optimizer: the largest parameters are dealt out first") {
    const auto sized = [](std::vector<std::int64_t> sizes) {
      std::vector<NamedTensor> parameters;
      for (const std::int64_t size : sizes) parameters.emplace_back("", torch::empty({size}));
      return parameters;
    };
    using Owners = std::vector<int>;
    CHECK(troupe::detail::owners_of(sized({5, 9, 4, 9, 3}), 2) == Owners{0, 0, 1, 1, 1});
    CHECK(troupe::detail::owners_of(sized({7}), 3) == Owners{0});
    CHECK(troupe::detail::owners_of(sized({1, 1, 1, 1}), 3) == Owners{0, 1, 2, 0});
    CHECK(troupe::detail::owners_of({}, 2).empty());
  }

  TEST_CASE("shard optimizer: a checkpoint is whole, and the same as without") {
    const NetHooks hooks(make_adam);
    const TempDir whole;
    const TempDir divided;
    const TempDir mirrored;
    (void)train_on({2, 1, false}, hooks, options_in(whole.path().string(), 3));
    (void)train_on({2, 1, true}, hooks, options_in(divided.path().string(), 3));
    (void)train_on({1, 2, true}, hooks, options_in(mirrored.path().string(), 3));
    for (const char* file : {"model.safetensors", "optimizers.safetensors"}) {
      const std::string expected = contents_of(whole / "model.ckpt-3" / file);
      CHECK(contents_of(divided / "model.ckpt-3" / file) == expected);
      CHECK(contents_of(mirrored / "model.ckpt-3" / file) == expected);
    }
  }

  TEST_CASE("shard optimizer: resumed equals uninterrupted, divided or not, at every step") {
    const NetHooks hooks(make_adam);
    for (const auto& [workers, replicas] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
      const std::string expected = hash_of({workers, replicas, false}, hooks, options_in("", 5));
      for (const auto& [before, after] :
           {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
        for (const std::int64_t stop : {1, 3}) {
          CAPTURE(workers);
          CAPTURE(replicas);
          CAPTURE(before);
          CAPTURE(after);
          CAPTURE(stop);
          const TempDir dir;
          (void)train_on({workers, replicas, before}, hooks, options_in(dir.path().string(), stop));
          CHECK(hash_of({workers, replicas, after}, hooks, options_in(dir.path().string(), 5)) ==
                expected);
        }
      }
    }
  }

  TEST_CASE("shard optimizer: with virtual replicas resumed at any width, with the same bits") {
    const NetHooks hooks(make_adam);
    const auto change = [](StrategyOptions& s) { s.virtual_replicas = 4; };
    const std::string expected = hash_of({1, 1, false, change}, hooks, options_in("", 5));
    const TempDir dir;
    const std::string path = dir.path().string();
    (void)train_on({4, 1, true, change}, hooks, options_in(path, 1));
    (void)train_on({2, 1, true, change}, hooks, options_in(path, 2));
    (void)train_on({1, 2, true, change}, hooks, options_in(path, 3));
    (void)train_on({1, 1, true, change}, hooks, options_in(path, 4));
    CHECK(hash_of({3, 1, true, change}, hooks, options_in(path, 5)) == expected);
  }

  TEST_CASE("shard optimizer: a resumed replica takes the state of its part alone") {
    const NetHooks hooks(kOptimizers[2].second);
    const TempDir dir;
    const auto whole = train_on({2, 1, false}, hooks, options_in(dir.path().string(), 3));
    const auto parts = train_on({2, 1, true}, hooks, options_in(dir.path().string(), 4));
    CHECK(parts[0].all_states + parts[1].all_states == whole[0].state);
  }

  TEST_CASE("shard optimizer: an optimiser that may need all parameters is refused by name") {
    const NetHooks hooks([](auto p) { return std::make_shared<Unknown>(p, o::SGDOptions(0.1)); });
    StrategyOptions options = mirrored_options(2);
    options.shard_optimizer = true;
    const std::string error =
        refusal_of([&] { (void)make_mirrored(options)->create_state(hooks, 1); });
    CHECK(error.find("--shard-optimizer is given, but optimiser \"optimizer\" is a ") !=
          std::string::npos);
    CHECK(error.find("::Unknown, and no such kind is registered") != std::string::npos);
    CHECK(error.find("register_optimizer") != std::string::npos);
  }

  TEST_CASE("shard optimizer: what keeps no state by replica refuses it") {
    StrategyOptions options = mirrored_options(2);
    options.shard_optimizer = true;
    options.kind = StrategyKind::central_storage;
    CHECK(refusal_of([&] {
            (void)make_strategy(options);
          }).find("--strategy central-storage keeps the optimiser's state once") !=
          std::string::npos);
    options.kind = StrategyKind::parameter_server;
    CHECK(refusal_of([&] {
            (void)make_strategy(options);
          }).find("parameter servers keep the optimiser's state") != std::string::npos);
  }

  TEST_CASE("shard optimizer: the chief says how even the parts are") {
    const CapturedLog log;
    (void)train_on({2, 1, true}, NetHooks(make_adam), options_in("", 1));
    CHECK(log.count("the state of optimiser \"optimizer\" is divided among 2 replicas") == 1);
  }
}

}  // namespace sharded_optimizer_test
