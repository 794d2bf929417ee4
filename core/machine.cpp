#include "troupe/core/machine.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// "150000 100000" is 1.5 cores, "max 100000" no limit; version 1 has the two numbers in two files.
std::optional<double> read_quota(const fs::path& group) {
  std::string quota;
  double period = 0;
  if (std::ifstream version2(group / "cpu.max"); version2 >> quota >> period) {
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  char* end = nullptr;
  const double amount = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str() || amount <= 0 || period <= 0) return std::nullopt;
  return amount / period;
}

std::string cpu_capability() {
#if defined(__x86_64__) || defined(__i386__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "AVX512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "AVX2";
#endif
  return "default";
}

std::string try_loopback() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool works = fd.get() >= 0 &&
                     bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     listen(fd.get(), 1) == 0;
  return works ? "" : std::strerror(errno);
}

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> result;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return result;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const void* bytes = nullptr;
    if (family == AF_INET)
      bytes = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    else
      bytes = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    char name[INET6_ADDRSTRLEN] = "";
    if (inet_ntop(family, bytes, name, sizeof name) != nullptr)
      result.push_back({entry->ifa_name, name, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return result;
}

std::string locale_in_use() {
  for (const char* name : {"LC_ALL", "LC_NUMERIC", "LANG"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return "";
}

/// The idle ticks of each core of `mine` since the machine started, those that wait for a disk
/// among them, by the lines "cpu0 user nice system idle iowait ..." of /proc/stat.
std::map<int, std::int64_t> idle_ticks(const cpu_set_t& mine, const std::string& root) {
  std::map<int, std::int64_t> ticks;
  std::ifstream file(root + "/proc/stat");
  for (std::string line; std::getline(file, line);) {
    int core = 0;
    long long idle = 0, waiting = 0;
    if (std::sscanf(line.c_str(), "cpu%d %*d %*d %*d %lld %lld", &core, &idle, &waiting) == 3 &&
        core < CPU_SETSIZE && CPU_ISSET(core, &mine)) {
      ticks[core] = idle + waiting;
    }
  }
  return ticks;
}

/// The words of `const char* function(void)`, if there is one.
std::string ask(void* library, const char* function) {
  const auto call = reinterpret_cast<const char* (*)()>(dlsym(library, function));
  return call == nullptr ? "" : call();
}

}  // namespace

const char* name_of(Blas::Kind kind) {
  constexpr const char* kNames[] = {"missing", "reference BLAS", "OpenBLAS", "MKL",
                                    "BLIS",    "ATLAS",          "unknown"};
  return kNames[static_cast<int>(kind)];
}

std::optional<double> cgroup_cpu_limit(const std::string& root) {
  std::optional<double> limit;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "4:cpu,cpuacct:/a/b", or "0::/a/b" of version 2.
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    const std::string& controllers = parts[1];
    const bool of_cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
    if (!controllers.empty() && !of_cpu) continue;
    const fs::path top = fs::path(root + "/sys/fs/cgroup") / controllers;
    // A container may see its own group as the root of the mount, under another path: every level
    // that exists counts, the mount's root included.
    const std::size_t before = parts[0].size() + controllers.size() + 2;
    fs::path relative = fs::path(line.substr(before)).relative_path();
    for (;;) {
      const auto quota = read_quota(top / relative);
      if (quota) limit = std::min(limit.value_or(*quota), *quota);
      if (relative.empty()) break;
      relative = relative.parent_path();
    }
  }
  return limit;
}

Cores inspect_cores(const std::string& root) {
  Cores cores;
  cores.online = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  cores.affinity = cores.online;
  // A mask wider than cpu_set_t's 1024 is refused with EINVAL; then all online cores count.
  if (cpu_set_t mask; sched_getaffinity(0, sizeof mask, &mask) == 0)
    cores.affinity = std::max(1, CPU_COUNT(&mask));
  cores.cgroup_limit = cgroup_cpu_limit(root);
  cores.usable = cores.affinity;
  if (cores.cgroup_limit)
    cores.usable = std::clamp(static_cast<int>(std::floor(std::min(*cores.cgroup_limit, 1e6))), 1,
                              cores.affinity);
  return cores;
}

double cores_taken(std::chrono::milliseconds look, const std::string& root) {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 0;
  const auto before = idle_ticks(mine, root);
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(look);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double all = seconds.count() * static_cast<double>(sysconf(_SC_CLK_TCK));
  double taken = 0;
  for (const auto& [core, idle] : idle_ticks(mine, root)) {
    const auto then = before.find(core);
    if (then == before.end()) continue;
    taken += std::clamp(1 - static_cast<double>(idle - then->second) / all, 0.0, 1.0);
  }
  return taken;
}

std::string crowded_threads(int threads, const Cores& cores, double taken) {
  if (threads < 2 || threads + taken < cores.affinity + 0.7) return "";
  return text("other processes keep about ", std::lround(taken), " of ", cores.affinity,
              " cores busy, and ", threads,
              " compute threads then wait for each other at every operation");
}

int compute_threads(int usable_cores, int workers, int servers) {
  return std::max(1, (usable_cores - servers) / std::max(1, workers));
}

Blas inspect_blas(const std::string& libtorch) {
  Blas blas;
  void* library = RTLD_DEFAULT;  // the order in which LibTorch finds its functions, too
  void* product = dlsym(library, "sgemm_");
  for (const char* file : {libtorch.c_str(), "libblas.so.3"}) {
    if (product != nullptr || *file == '\0') continue;
    // Stays loaded: its threads run.
    if (void* loaded = dlopen(file, RTLD_LAZY | RTLD_LOCAL)) {
      library = loaded;
      product = dlsym(library, "sgemm_");
    }
  }
  if (product == nullptr) return blas;
  Dl_info info{};
  if (dladdr(product, &info) != 0 && info.dli_fname != nullptr) {
    std::error_code ignored;
    const fs::path real = fs::canonical(info.dli_fname, ignored);
    blas.path = real.empty() ? info.dli_fname : real.string();
  }
  // The path speaks first: a process that has another BLAS loaded, too, finds that one's symbols.
  const auto path_has = [&](const char* part) { return blas.path.find(part) != std::string::npos; };
  const auto has = [&](const char* symbol) { return dlsym(library, symbol) != nullptr; };
  if (path_has("openblas") || has("openblas_get_config")) {
    blas.kind = Blas::Kind::openblas;
    blas.version = ask(library, "openblas_get_config");
  } else if (path_has("mkl") || has("MKL_Get_Version_String")) {
    blas.kind = Blas::Kind::mkl;
  } else if (path_has("blis") || has("bli_info_get_version_str")) {
    blas.kind = Blas::Kind::blis;
    blas.version = ask(library, "bli_info_get_version_str");
  } else if (path_has("atlas") || has("ATL_buildinfo")) {
    blas.kind = Blas::Kind::atlas;
  } else {
    // The reference library is plain libblas.so.3.x and has none of the others' symbols.
    blas.kind = path_has("/libblas.so.3") ? Blas::Kind::reference : Blas::Kind::unknown;
  }
  return blas;
}

std::vector<std::string> openmp_runtimes() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string name = line.substr(line.rfind('/') + 1);
    for (const char* runtime : {"libgomp", "libiomp5", "libomp"}) {
      if (name.rfind(text(runtime, ".so"), 0) == 0 || name.rfind(text(runtime, "-"), 0) == 0)
        files.insert(line.substr(path));
    }
  }
  return {files.begin(), files.end()};
}

bool hosts_file_hides(const std::string& name, const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address;
    words >> address;
    if (address.rfind("127.", 0) != 0 || address == "127.0.0.1") continue;
    for (std::string word; words >> word;)
      if (word == name) return true;
  }
  return false;
}

Machine inspect_machine(const std::string& libtorch) {
  Machine machine;
  machine.cores = inspect_cores();
  machine.blas = inspect_blas(libtorch);
  machine.openmp = openmp_runtimes();
  machine.cpu_capability = cpu_capability();
  machine.memory_bytes = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                         static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) == 0) machine.name = name;
  machine.name_is_loopback = hosts_file_hides(machine.name, "/etc/hosts");
  machine.addresses = interface_addresses();
  machine.loopback_error = try_loopback();
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0)
    machine.open_file_limit = limit.rlim_cur;
  machine.locale = locale_in_use();
  return machine;
}

}  // namespace troupe
