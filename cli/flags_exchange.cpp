#include "cli/flags_exchange.h"

#include <cmath>
#include <string>
#include <utility>

#include "cli/flags_making.h"

namespace troupe::detail {
namespace {

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

void add_exchange_flags(std::vector<Flag>& flags, StrategyOptions& strategy) {
  const auto add = [&](Flag made) {
    flags.push_back(in_group(std::move(made), "Exchange of gradients"));
  };
  add(choice<std::string>("communication", &strategy.communication,
                          "what sums gradients over workers: auto, native, gloo, nccl or mpi",
                          "NAME",
                          {{"auto", "auto"},
                           {"native", "native"},
                           {"gloo", "gloo"},
                           {"nccl", "nccl"},
                           {"mpi", "mpi"},
                           {"ring", "native"}}));
  add(choice<Transport>("transport", &strategy.group.transport,
                        "how bytes travel between workers of one machine: auto, tcp, unix or shm "
                        "(shared memory)",
                        "NAME",
                        named<Transport>({Transport::automatic, Transport::tcp,
                                          Transport::unix_socket, Transport::shared_memory})));
  add(choice<std::string>("compress", &strategy.compress,
                          "type of gradients on their way: none, float16 or bfloat16", "TYPE",
                          {{"none", "none"},
                           {"float16", "float16"},
                           {"bfloat16", "bfloat16"},
                           {"fp16", "float16"},
                           {"bf16", "bfloat16"}}));
  add(choice<Overlap>(
      "overlap", &strategy.buckets.overlap,
      "sum gradients while backward computes: on, off, or auto, which does so between machines",
      "WHEN", {{"auto", Overlap::automatic}, {"on", Overlap::on}, {"off", Overlap::off}}));
  add(mebibytes("bucket-mb", &strategy.buckets.bytes,
                "gradients that are summed in one go while backward computes, in MiB"));
}

}  // namespace troupe::detail
