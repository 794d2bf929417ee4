#include <cmath>

#include "cli/flags_builtin.h"
#include "cli/flags_making.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kMostClocks = 1'000'000'000;
constexpr std::int64_t kMostShardBytes = std::int64_t{1} << 40;
constexpr double kMebibyte = 1024 * 1024;
constexpr double kMostMebibytes = 1024 * 1024;

/// A number of bytes, given in MiB; at least one byte.
Flag mebibytes(const char* name, std::int64_t* target, const char* help) {
  Flag made;
  made.name = name;
  made.value_name = "MIB";
  made.help = help;
  made.assign = [target](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || *number * kMebibyte < 1 || *number > kMostMebibytes) {
      return text("give a number greater than 0, at most ", kMostMebibytes, ".");
    }
    *target = std::llround(*number * kMebibyte);
    return std::nullopt;
  };
  made.show = [target] { return number_text(static_cast<double>(*target) / kMebibyte); };
  return made;
}

}  // namespace

void add_server_flags(std::vector<Flag>& flags, std::string& addresses, ServerOptions& servers) {
  FlagGroup list(flags, "Parameter servers");
  list.add(
      path("servers", &addresses,
           "where the parameter servers listen, beside --rank and --world-size; a server itself "
           "has --task ps:N and --world-size",
           "LIST"));
  list.add(
      whole<std::int64_t>("staleness-bound", &servers.staleness_bound,
                          "steps that a worker may be ahead of the slowest; 0: synchronous; unset: "
                          "no bound",
                          0, kMostClocks));
  list.add_rare(
      flag("prefetch", &servers.prefetch, "fetch the next step's values while this one computes"));
  list.add_rare(flag("staleness-correction", &servers.correct_staleness,
                     "asynchronous: take full steps also with gradients that come late"));
  list.add_rare(whole<std::int64_t>("min-shard-bytes", &servers.min_shard_bytes,
                                    "no part of a tensor that is split over servers is smaller", 1,
                                    kMostShardBytes));
}

void add_exchange_flags(std::vector<Flag>& flags, StrategyOptions& strategy) {
  FlagGroup list(flags, "Exchange of gradients");
  list.add(choice<Communication>(
      "communication", &strategy.communication,
      "what sums gradients over workers: auto, native, gloo, nccl or mpi", "NAME",
      {{"auto", Communication::automatic},
       {"native", Communication::native},
       {"gloo", Communication::gloo},
       {"nccl", Communication::nccl},
       {"mpi", Communication::mpi},
       {"ring", Communication::native}}));
  list.add(
      choice<Transport>("transport", &strategy.group.transport,
                        "how bytes travel between workers of one machine: auto, tcp, unix or shm "
                        "(shared memory)",
                        "NAME",
                        named<Transport>({Transport::automatic, Transport::tcp,
                                          Transport::unix_socket, Transport::shared_memory})));
  list.add(choice<Compression>("compress", &strategy.compress,
                               "type of gradients in transit: none, float16 or bfloat16", "TYPE",
                               {{"none", Compression::none},
                                {"float16", Compression::float16},
                                {"bfloat16", Compression::bfloat16},
                                {"fp16", Compression::float16},
                                {"bf16", Compression::bfloat16}}));
  list.add(choice<Overlap>(
      "overlap", &strategy.buckets.overlap,
      "sum gradients while backward computes: on, off, or auto, which does so between machines",
      "WHEN", named<Overlap>({Overlap::automatic, Overlap::on, Overlap::off})));
  list.add(mebibytes("bucket-mb", &strategy.buckets.bytes,
                     "gradients that are summed in one go while backward computes, in MiB"));
}

}  // namespace troupe::detail
