// Which machines a group runs on, and how many workers on each: --hosts and --hostfile.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// A machine as ssh is to be told of it.
struct HostSlots {
  std::string name;  // "gpu1", "me@gpu1", "10.0.0.1", "fd00::1"
  int workers = 1;
};

/// Without "me@": what other machines reach it by.
[[nodiscard]] std::string address_of(const HostSlots& host);

/// "a:2,b:2"; a host without a number gets one worker, [] stand around an IPv6 address. A host that
/// is named again gets the sum. Throws: ConfigError.
[[nodiscard]] std::vector<HostSlots> parse_host_list(const std::string& list);

/// The format of Open MPI and DeepSpeed: a line per host, "gpu1 slots=4"; `#` begins a comment,
/// other settings of Open MPI (max_slots=) have no meaning here. `shown` names the file.
/// Throws: ConfigError naming the line.
[[nodiscard]] std::vector<HostSlots> parse_host_file(const std::string& contents,
                                                     const std::string& shown);

/// The same, read from `path`, of 1 MiB at most. Throws: ConfigError.
[[nodiscard]] std::vector<HostSlots> read_host_file(const std::string& path);

}  // namespace troupe
