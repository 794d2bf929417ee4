#include "bench/machine_facts.h"

#include <sys/utsname.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/gloo_group.h"
#include "troupe/core/error.h"
#include "troupe/core/machine.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"

namespace troupe::bench {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown";
}

std::string kernel() {
  utsname names{};
  return uname(&names) == 0 ? text(names.sysname, " ", names.release, " ", names.machine)
                            : "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char written[32];
  return std::strftime(written, sizeof written, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0 ? written : "";
}

}  // namespace

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one;
  std::string five;
  std::string fifteen;
  return file >> one >> five >> fifteen ? text(one, " ", five, " ", fifteen) : "";
}

nlohmann::ordered_json machine_facts() {
  const Machine machine = inspect_machine();
  const std::string blas =
      machine.blas.version.empty() ? name_of(machine.blas.kind) : machine.blas.version;
  return {{"date", utc_now()},
          {"cpu", cpu_name()},
          {"cores_online", machine.cores.online},
          {"cores_usable", machine.cores.usable},
          {"cpu_capability", machine.cpu_capability},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", kernel()},
          {"load_average", load_average()},
          {"blas", blas},
          {"libtorch", TROUPE_BENCH_LIBTORCH_VERSION},
          {"gloo", gloo_status()},
          {"compiler", text(TROUPE_BENCH_COMPILER)},
          {"build_type", TROUPE_BENCH_BUILD_TYPE},
          {"troupe", kVersion}};
}

std::string machine_line(const nlohmann::ordered_json& facts) {
  const auto of = [&](const char* name) { return facts.at(name).get<std::string>(); };
  return text(of("cpu"), ", ", facts.at("cores_usable").get<int>(), " cores, ", of("kernel"),
              ", LibTorch ", of("libtorch"), ", ", of("blas"), ", ", of("compiler"), ", ",
              of("build_type"), ", ", of("date"), ", load ", of("load_average"));
}

void write_report(const std::string& path, const nlohmann::ordered_json& report) {
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary);
  file << report.dump(2) << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw EnvironmentError(text("'", path, "' cannot be written."),
                           "pass --json a file in a directory where this user may write.");
  }
}

}  // namespace troupe::bench
