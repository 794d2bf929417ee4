// Machine: what this computer offers to a training process. `troupe doctor` prints it, start-up
// warnings and the launcher's thread counts come from it. Reads the system, changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// CPU cores, as different parts of the system count them.
struct Cores {
  int online = 1;                      // in the machine
  int affinity = 1;                    // this process may run on (sched_getaffinity)
  std::optional<double> cgroup_limit;  // cores' worth of time that the container grants
  int usable = 1;                      // the smaller of the last two, at least 1
};

/// The library that LibTorch multiplies matrices with: what the name libblas.so.3 leads to
/// (Debian's), or one inside LibTorch (MKL in pip's and in the archives).
struct Blas {
  enum class Kind { missing, reference, openblas, mkl, blis, atlas, unknown };
  Kind kind = Kind::missing;
  std::string path;     // the file behind the links; empty: not found
  std::string version;  // what the library says of itself; may be empty
  /// Reference BLAS is correct and 7 to 14 times slower than OpenBLAS (a 512x784x512 product,
  /// 4.5 GFLOP/s against 31 to 63 on two cores).
  [[nodiscard]] bool slow() const { return kind == Kind::reference; }
};

/// One address of one network interface.
struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // "10.0.0.7", "fe80::1"
  bool loopback = false;
};

struct Machine {
  Cores cores;
  Blas blas;
  std::vector<std::string> openmp;  // openmp_runtimes(), after the BLAS was loaded
  std::string cpu_capability;       // "AVX512", "AVX2" or "default": LibTorch picks kernels by it
  std::uint64_t memory_bytes = 0;   // the machine's; a container may grant less
  std::string name;                 // what gethostname says
  bool name_is_loopback = false;    // /etc/hosts gives the name a 127.x.x.x address other than .0.1
  std::vector<InterfaceAddress> addresses;
  std::string loopback_error;  // why no port of 127.0.0.1 can be listened on; empty: it can
  std::uint64_t open_file_limit = 0;
  std::string locale;  // LC_ALL, LC_NUMERIC or LANG, as the environment sets it; empty: none
};

[[nodiscard]] const char* name_of(Blas::Kind kind);

/// Cores of this process. `root` is put before every path read (tests); empty: the real system.
[[nodiscard]] Cores inspect_cores(const std::string& root = "");

/// Compute threads of each of `workers` on one machine, of which `servers` occupy a core each: the
/// usable cores divided among the workers, at least 1. One rule for workers that the launcher
/// starts, for those started otherwise and for a process alone.
[[nodiscard]] int compute_threads(int usable_cores, int workers, int servers);

/// How many of the cores that this process may run on others kept busy while this looked: blocks
/// for `look`, in which this thread sleeps. `root` as above. 0 where /proc/stat cannot be read.
[[nodiscard]] double cores_taken(std::chrono::milliseconds look, const std::string& root = "");

/// What the compute threads of a process alone suffer from that: threads that share their work wait
/// for the one whose core is taken, at every operation. "": they have a core each. With figures:
/// docs/performance.md, "Threads beside other processes".
[[nodiscard]] std::string crowded_threads(int threads, const Cores& cores, double taken);

/// CPU time that the control groups around this process grant, in cores; unset: no limit.
/// Reads version 2 (cpu.max) and version 1 (cpu.cfs_quota_us), the tightest of all levels.
[[nodiscard]] std::optional<double> cgroup_cpu_limit(const std::string& root = "");

/// Asks the BLAS that this process reaches who it is. Where it reaches none, it loads `libtorch`, a
/// file, or libblas.so.3 where that is empty or cannot be loaded; OpenBLAS then starts its threads.
[[nodiscard]] Blas inspect_blas(const std::string& libtorch = "");

/// The OpenMP runtimes that are mapped into this process, as files. More than one: a number of
/// threads that is set in one does not hold in the other.
[[nodiscard]] std::vector<std::string> openmp_runtimes();

/// Whether the hosts file at `path` gives `name` an address of 127.0.0.0/8 other than 127.0.0.1, as
/// Debian's installer does: other machines are then told an address that leads to themselves.
[[nodiscard]] bool hosts_file_hides(const std::string& name, const std::string& path);

/// `libtorch` as for inspect_blas.
[[nodiscard]] Machine inspect_machine(const std::string& libtorch = "");

}  // namespace troupe
