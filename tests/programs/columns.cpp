#include "tests/programs/columns.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/server_runs.h"
#include "troupe/core/text.h"
#include "troupe/strategies/replicas/local_replicas.h"

namespace troupe::programs {
namespace {

using namespace troupe::testing;  // NOLINT: this file's subject

constexpr double kTolerance = 1e-9;
// A product of bfloat16 is rounded to 8 bits, 2^-9 of its size at most. Where a batch is shared,
// each share's gradient is rounded, and then their sum, alone it is rounded once: they differ by
// 2^-8 of a gradient, which is about 1 at most here. Momentum of 0.9 adds up ten of them, twenty
// steps have a rate of 0.05: 20 x 0.05 x 10 x 2^-8. Forward passes differ by as much for the
// weights' sake alone, and squared errors of about 1 by twice as much: 0.045 was met with LibTorch
// 2.15, whose kernels round elsewhere.
constexpr double kBfloat16Tolerance = 0.08;

TrainOptions train_options(Column column, std::int64_t steps) {
  TrainOptions options;
  options.batch_size = kBatch;
  options.epochs = (steps + kStepsOfEpoch - 1) / kStepsOfEpoch;
  options.max_steps = steps;
  options.log_every = 1;
  options.progress = false;
  if (column == Column::averages) options.ema_decay = 0.9;
  return options;
}

/// Trains, and keeps what rank 0 sees.
void train_rank(Strategy& strategy, const Hooks& hooks, const TrainOptions& options, Result& result,
                std::shared_ptr<PeriodicAction> own = nullptr) {
  std::vector<double> losses;
  auto state = strategy.create_state(hooks, 1);
  const auto data =
      strategy.distribute(hooks.create_datasets(), {options.batch_size, options.seed});
  Actions actions{std::make_shared<Losses>(losses)};
  if (own) actions.push_back(std::move(own));
  (void)train(strategy, hooks, state, data, options, {std::move(actions), {}});
  if (state.averages) state.averages.reset();  // the column is about what training does beside them
  const std::optional<Report> report = test(strategy, hooks, state, data);
  if (strategy.rank() == 0 || strategy.elastic() != nullptr) {
    result.losses.insert(result.losses.end(), losses.begin(), losses.end());
    if (report) result.metric = report->metrics.front().value;
    result.tensors.clear();
    for (const auto& [name, tensor] : troupe::detail::state_of(*state.replicas.front()))
      result.tensors.emplace_back(
          name, tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  strategy.close();
}

StrategyOptions worker_options(const StrategyOptions& common, int rank, int workers,
                               std::uint16_t port) {
  StrategyOptions own = options_of(rank, workers, port);
  own.replicas = common.replicas;
  own.device = common.device;
  own.devices = common.devices;
  own.step = common.step;
  own.virtual_replicas = common.virtual_replicas;
  own.shard_optimizer = common.shard_optimizer;
  own.communication = common.communication;
  own.threads = 1;
  return own;
}

/// The victim's end; the others wait for the one that comes, which is not to miss the training.
class Loss final : public PeriodicAction {
 public:
  Loss(const ElasticWorker& worker, Strategy& strategy) : worker_(worker), strategy_(strategy) {}
  void after_step(const StepReport& /*report*/, RunControl& run) override {
    if (worker_.is_victim && run.step() == kKilledAfter) ::raise(SIGKILL);
    if (run.step() != kWaitsForIt || worker_.cluster.joins) return;
    (void)testing::eventually(
        [&] { return strategy_.world_size() > 1 || strategy_.elastic()->joiners_wait(); });
  }

 private:
  const ElasticWorker& worker_;
  Strategy& strategy_;
};

/// Of the hooks; the plain loops run on the CPU.
std::string device_of_programs() {
  const char* const device = std::getenv("TROUPE_PROGRAMS_DEVICE");
  return device == nullptr ? "cpu" : device;
}

/// What the workers of a column have in common.
StrategyOptions common_options(Column column) {
  StrategyOptions common;
  common.group.collective_timeout = std::chrono::seconds(60);
  common.step.precision = precision_in(column);
  common.device = device_of_programs();
  // NCCL takes a GPU for each worker, and there is one.
  if (common.device != "cpu") common.communication = Communication::native;
  if (column == Column::replicas || column == Column::two_by_two) {
    common.replicas = 2;
    common.devices = {common.device, common.device};
  }
  if (column == Column::gloo) common.communication = Communication::gloo;
  if (column == Column::accumulate) common.step.accumulate = 3;
  if (column == Column::virtual_alone || column == Column::virtual_pair)
    common.virtual_replicas = 4;
  common.shard_optimizer = column == Column::sharded;
  return common;
}

Stage stage_of(Column column, const Program& program, const TrainOptions& options) {
  const StrategyOptions common = common_options(column);
  const int workers = workers_in(column);
  const auto port = free_port();
  return {workers, [=, &program](int rank, Result& result) {
            const auto hooks = program.hooks();
            const auto strategy =
                workers > 1 ? make_multi_worker(worker_options(common, rank, workers, port))
                : common.replicas > 1 ? make_mirrored(common)
                                      : make_one_device(common);
            train_rank(*strategy, *hooks, options, result);
          }};
}

bool is_near(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * std::max({1.0, std::fabs(a), std::fabs(b)});
}

}  // namespace

int workers_in(Column column) {
  switch (column) {
    case Column::two_workers:
    case Column::two_by_two:
    case Column::gloo:
    case Column::virtual_pair:
    case Column::sharded:
    case Column::resumed:
    case Column::bfloat16_pair:
    case Column::elastic:
      return 2;
    case Column::three_workers:
      return 3;
    default:
      return 1;
  }
}

std::vector<Stage> stages_of(Column column, const Program& program) {
  const TrainOptions options = train_options(column, kSteps);
  if (column == Column::servers) {
    const Job job = synchronous(2, 2);
    StrategyOptions common = options_of(job);
    common.device = device_of_programs();
    return {{job.workers + job.servers, [common, options, &program](int process, Result& result) {
               const auto hooks = program.hooks();
               be_process(common, process, *hooks, [&](int, Strategy& strategy) {
                 train_rank(strategy, *hooks, options, result);
               });
               if (process == 0) result.losses.clear();  // a worker knows those of its own share
             }}};
  }
  if (column != Column::resumed) return {stage_of(column, program, options)};
  std::vector<Stage> stages;
  const auto folder = std::make_shared<TempDir>();
  for (const std::int64_t steps : {std::int64_t{7}, kSteps}) {
    TrainOptions part = train_options(column, steps);
    part.epochs = options.epochs;
    part.model_dir = (*folder / "model").string();
    stages.push_back(stage_of(column, program, part));
    stages.back().keeps = folder;
  }
  return stages;
}

Outcome train_in(Column column, const Program& program) {
  Outcome outcome;
  for (const Stage& stage : stages_of(column, program)) {
    const RankErrors errors =
        try_ranks(stage.processes, [&](int process) { stage.run(process, outcome.result); });
    for (const auto& error : errors) {
      const std::string message = message_of(error);
      if (!message.empty()) outcome.error += outcome.error.empty() ? message : "\n" + message;
    }
    if (!outcome.error.empty()) break;
  }
  return outcome;
}

Outcome train_elastic(const Program& program, const ElasticWorker& worker) {
  Outcome outcome;
  try {
    StrategyOptions options;
    options.cluster = worker.cluster;
    options.group.secret = test_secret();
    options.group.start_timeout = options.group.collective_timeout = std::chrono::seconds(60);
    options.virtual_replicas = 4;
    options.threads = 1;
    const auto hooks = program.hooks();
    const auto strategy = make_multi_worker(options);
    train_rank(*strategy, *hooks, train_options(Column::elastic, kSteps), outcome.result,
               std::make_shared<Loss>(worker, *strategy));
    if (worker.cluster.joins) outcome.result.losses.clear();  // it knows the last ones
    if (worker.is_victim) outcome.error = "it was to be killed, and saw the end";
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

Shares shares_in(Column column) {
  switch (column) {
    case Column::replicas:
    case Column::two_workers:
    case Column::gloo:
    case Column::sharded:
    case Column::resumed:
    case Column::bfloat16_pair:
      return {2, 1};
    case Column::servers:
      return {2, 1, /*first_keeps=*/true};
    case Column::three_workers:
      return {3, 1};
    case Column::two_by_two:
    case Column::virtual_alone:
    case Column::virtual_pair:
    case Column::elastic:
      return {4, 1};
    case Column::accumulate:
      return {1, 3};
    case Column::alone:
    case Column::averages:
    case Column::bfloat16:
      return {1, 1};
  }
  return {};
}

Precision precision_in(Column column) {
  return column == Column::bfloat16 || column == Column::bfloat16_pair ? Precision::bfloat16
                                                                       : Precision::float32;
}

double tolerance_in(Column column) {
  return precision_in(column) == Precision::bfloat16 ? kBfloat16Tolerance : kTolerance;
}

std::string difference(const Result& got, const Result& expected, double tolerance) {
  const bool has_losses = !got.losses.empty();
  if (has_losses && got.losses.size() != expected.losses.size())
    return text(got.losses.size(), " losses instead of ", expected.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    if (!is_near(got.losses[i], expected.losses[i], tolerance))
      return text("loss of step ", i + 1, ": ", got.losses[i], " instead of ", expected.losses[i]);
  }
  if (!is_near(got.metric, expected.metric, tolerance))
    return text("metric: ", got.metric, " instead of ", expected.metric);
  for (const auto& [name, value] : expected.tensors) {
    const auto found =
        std::find_if(got.tensors.begin(), got.tensors.end(),
                     [&key = name](const auto& tensor) { return tensor.first == key; });
    if (found == got.tensors.end()) return text("there is no tensor ", name);
    if (value.numel() == 0) continue;
    const double most =
        (found->second.to(torch::kFloat64) - value.to(torch::kFloat64)).abs().max().item<double>() /
        std::max(1.0, value.to(torch::kFloat64).abs().max().item<double>());
    if (!(most <= tolerance)) return text(name, " differs by ", most);
  }
  return "";
}

}  // namespace troupe::programs
