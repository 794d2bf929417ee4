// What a number depends on: the machine, the libraries, the build, the moment.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace troupe::bench {

/// Machine, libraries and build as a JSON object; "load_average" is that of the call.
[[nodiscard]] nlohmann::ordered_json machine_facts();

/// The three numbers of /proc/loadavg; empty where there is no such file.
[[nodiscard]] std::string load_average();

/// The same facts in one line for people.
[[nodiscard]] std::string machine_line(const nlohmann::ordered_json& facts);

/// Writes `report` to `path`, through a temporary file beside it.
/// Throws: EnvironmentError.
void write_report(const std::string& path, const nlohmann::ordered_json& report);

}  // namespace troupe::bench
