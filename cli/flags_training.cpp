#include <cmath>
#include <string>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/flags_builtin.h"
#include "troupe/cli/flags_making.h"
#include "troupe/core/options/metric_rules.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kMostClocks = 1'000'000'000;
constexpr double kMebibyte = 1024 * 1024;
constexpr double kMostMebibytes = 1024 * 1024;

/// A number of bytes, given in MiB; at least one byte.
Flag mebibytes(const char* name, std::int64_t* target, const char* help) {
  const auto assign = [target](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || *number * kMebibyte < 1 || *number > kMostMebibytes) {
      return text("give a number greater than 0, at most ", kMostMebibytes, ".");
    }
    *target = std::llround(*number * kMebibyte);
    return std::nullopt;
  };
  const auto show = [target] { return number_text(static_cast<double>(*target) / kMebibyte); };
  return {name, FlagKind::text, "MIB", help, assign, show};
}

Flag precision(Precision* target) {
  Flag made = choice<Precision>(
      "precision", target, "of forward passes: float32, or bfloat16 with parameters in float32",
      "TYPE",
      {{"float32", Precision::float32},
       {"bfloat16", Precision::bfloat16},
       {"fp32", Precision::float32},
       {"bf16", Precision::bfloat16}});
  made.assign = [assign = made.assign](const std::string& given) -> Fix {
    if (given != "fp16" && given != "float16") return assign(given);
    return "give bfloat16 (bf16), whose range is float32's; float16 would need loss scaling, which "
           "LibTorch's C++ API lacks.";
  };
  return made;
}

/// METRIC:N, as --early-stopping spells it.
Flag plateau(ScheduleOptions* target) {
  const auto assign = [target](const std::string& given) -> Fix {
    const auto rule = parse_stop_rule(given);
    if (!rule || !rule->steps || rule->by.better != Better::unknown) {
      return "give METRIC:N, for example loss:10.";
    }
    target->metric = rule->by.metric;
    target->patience = *rule->steps;
    return std::nullopt;
  };
  const auto show = [target] { return text(target->metric, ":", target->patience); };
  return {"plateau",
          FlagKind::text,
          "METRIC:N",
          "plateau: drop after N validations in which the metric or loss has not become better",
          assign,
          show};
}

}  // namespace

void add_step_flags(std::vector<Flag>& flags, Options& options) {
  FlagGroup list(flags, "Training step", FlagGroup::Of::must_match);
  StepOptions& step = options.strategy.step;
  constexpr std::int64_t most = 1'000'000;
  list.add(
      whole<std::int64_t>("accumulate", &step.accumulate,
                          "compute each replica's part of a step in N parts, to save memory; one "
                          "update as without",
                          1, most));
  list.add(real(
      "clip-norm", &step.clip_norm,
      "limit of the gradients' global norm, after their sum over replicas; 0: none",
      [](double x) { return x >= 0; }, "give a number greater than 0, or 0 for no limit."));
  list.add(precision(&step.precision));
  list.add(whole<std::int32_t>("virtual-replicas", &options.strategy.virtual_replicas,
                               "cut each global batch into N shares at any number of workers: the "
                               "bits depend on N alone; 0: "
                               "one share for each replica",
                               0, kMaxWorkers));
  list.add_rare(flag("check-repeat", &options.strategy.check_repeat,
                     "with --virtual-replicas, compute every training step twice and compare the "
                     "bits: finds hooks that keep something to themselves"));
  list.add(flag("shard-optimizer", &options.strategy.shard_optimizer,
                "each replica keeps the optimisers' state of its part of the parameters alone and "
                "updates these; same numbers"));
}

void add_learning_flags(std::vector<Flag>& flags, TrainOptions& train) {
  FlagGroup list(flags, "Learning rate and averages", FlagGroup::Of::must_match);
  ScheduleOptions& schedule = train.schedule;
  list.add(choice(
      "lr-schedule", &schedule.kind,
      "how the learning rate falls: constant, step, cosine or plateau", "NAME",
      named<Schedule>({Schedule::constant, Schedule::step, Schedule::cosine, Schedule::plateau})));
  list.add(at_least(0, "warmup-steps", &schedule.warmup_steps,
                    "the rate rises linearly over the first N steps; 0: no warm-up"));
  list.add_rare(at_least(0, "decay-steps", &schedule.decay_steps,
                         "step: steps between two drops; cosine: steps from the warm-up to the "
                         "smallest rate, 0: to the last step of the run"));
  list.add_rare(real(
      "decay-factor", &schedule.decay_factor,
      "step and plateau: what the rate is multiplied by at a drop",
      [](double x) { return x > 0 && x < 1; }, "give a number above 0 and below 1."));
  list.add_rare(real(
      "final-factor", &schedule.final_factor,
      "the schedule goes no lower than this part of --learning-rate",
      [](double x) { return x >= 0 && x <= 1; }, "give a number from 0 to 1."));
  list.add_rare(plateau(&schedule));
  list.add(real(
      "ema-decay", &train.ema_decay,
      "evaluate with averages of the weights that keep this part of themselves each step (0.999); "
      "0: none",
      [](double x) { return x >= 0 && x < 1; }, "give a number of at least 0 and below 1."));
}

void add_server_flags(std::vector<Flag>& flags, std::string& addresses, ServerOptions& servers) {
  FlagGroup list(flags, "Parameter servers");
  list.add_rare(
      path("servers", &addresses,
           "where the parameter servers listen, beside --rank and --world-size; a server itself "
           "has --task ps:N and --world-size",
           "LIST"));
  list.add(matching(
      whole<std::int64_t>("staleness-bound", &servers.staleness_bound,
                          "steps that a worker may be ahead of the slowest; 0: synchronous; unset: "
                          "no bound",
                          0, kMostClocks)));
}

void add_exchange_flags(std::vector<Flag>& flags, StrategyOptions& strategy) {
  FlagGroup list(flags, "Exchange of gradients", FlagGroup::Of::must_match);
  list.add_rare(choice<Communication>(
      "communication", &strategy.communication,
      "what sums gradients over workers: auto, native, gloo, nccl or mpi", "NAME",
      named<Communication>({Communication::automatic, Communication::native, Communication::gloo,
                            Communication::nccl, Communication::mpi})));
  list.add_rare(
      choice<Transport>("transport", &strategy.group.transport,
                        "how bytes travel between workers of one machine: auto, tcp, unix or shm "
                        "(shared memory)",
                        "NAME",
                        named<Transport>({Transport::automatic, Transport::tcp,
                                          Transport::unix_socket, Transport::shared_memory})));
  list.add_rare(choice<Compression>("compress", &strategy.compress,
                                    "type of gradients in transit: none, float16 or bfloat16",
                                    "TYPE",
                                    {{"none", Compression::none},
                                     {"float16", Compression::float16},
                                     {"bfloat16", Compression::bfloat16},
                                     {"fp16", Compression::float16},
                                     {"bf16", Compression::bfloat16}}));
  list.add_rare(choice<Overlap>(
      "overlap", &strategy.buckets.overlap,
      "sum gradients while backward computes: on, off, or auto, which does so between machines",
      "WHEN", named<Overlap>({Overlap::automatic, Overlap::on, Overlap::off})));
  list.add_hidden(mebibytes("bucket-mb", &strategy.buckets.bytes,
                            "gradients that are summed in one go while backward computes, in MiB"));
}

}  // namespace troupe::detail
