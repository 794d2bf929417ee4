#include "cli/flags_servers.h"

#include <utility>

#include "cli/flags_making.h"

namespace troupe::detail {
namespace {

constexpr std::int64_t kMostClocks = 1'000'000'000;
constexpr std::int64_t kMostShardBytes = std::int64_t{1} << 40;

}  // namespace

void add_server_flags(std::vector<Flag>& flags, std::string& addresses, ServerOptions& servers) {
  const auto add = [&](Flag made, Flag::Shown shown = Flag::Shown::always) {
    flags.push_back(in_group(std::move(made), "Parameter servers", shown));
  };
  add(path("servers", &addresses,
           "where the parameter servers listen, beside --rank and --world-size; a server itself "
           "has --task ps:N and --world-size",
           "LIST"));
  add(whole<std::int64_t>("staleness-bound", &servers.staleness_bound,
                          "steps that a worker may be ahead of the slowest; 0: synchronous; unset: "
                          "no bound",
                          0, kMostClocks));
  add(flag("prefetch", &servers.prefetch,
           "do not fetch the next step's values while this one computes"),
      Flag::Shown::in_help_all);
  add(whole<std::int64_t>("min-shard-bytes", &servers.min_shard_bytes,
                          "no part of a tensor that is split over servers is smaller", 1,
                          kMostShardBytes),
      Flag::Shown::in_help_all);
}

}  // namespace troupe::detail
