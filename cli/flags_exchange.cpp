#include <cmath>

#include "troupe/cli/flags_builtin.h"
#include "troupe/cli/flags_making.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kMostClocks = 1'000'000'000;
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
      {{"auto", Communication::automatic},
       {"native", Communication::native},
       {"gloo", Communication::gloo},
       {"nccl", Communication::nccl},
       {"mpi", Communication::mpi}}));
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
