#include "troupe/core/machine.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/test_prelude.h"

namespace machine_test {

namespace fs = std::filesystem;

namespace {

/// A directory that plays the system's root, removed at the end.
class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = (fs::temp_directory_path() / "troupe-root-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~FakeRoot() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  void write(const std::string& file, const std::string& content) const {
    fs::create_directories(fs::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << content;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("machine: a control group's quota is counted in cores") {
    const FakeRoot root;
    SUBCASE("version 2, the tightest level wins") {
      root.write("/proc/self/cgroup", "0::/job/step\n");
      root.write("/sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
      root.write("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
      CHECK(troupe::cgroup_cpu_limit(root.path()).value() == doctest::Approx(1.5));
      CHECK(troupe::inspect_cores(root.path()).usable == 1);
    }
    SUBCASE("version 2, a container that sees its group as the root") {
      root.write("/proc/self/cgroup", "0::/kubepods/pod1\n");
      root.write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
      CHECK(troupe::cgroup_cpu_limit(root.path()).value() == doctest::Approx(0.5));
      CHECK(troupe::inspect_cores(root.path()).usable == 1);
    }
    SUBCASE("version 1 has two files, under the names of its controllers") {
      root.write("/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n");
      root.write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
      root.write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
      CHECK(troupe::cgroup_cpu_limit(root.path()).value() == doctest::Approx(3));
    }
    SUBCASE("no limit, in either version's words, or no groups at all") {
      CHECK(!troupe::cgroup_cpu_limit(root.path()));
      root.write("/proc/self/cgroup", "1:cpu:/\n0::/\nnonsense\n");
      root.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
      root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
      root.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
      CHECK(!troupe::cgroup_cpu_limit(root.path()));
      CHECK(troupe::inspect_cores(root.path()).usable ==
            troupe::inspect_cores(root.path()).affinity);
    }
  }

  TEST_CASE("machine: a quota above the cores we may run on changes nothing") {
    const FakeRoot root;
    root.write("/proc/self/cgroup", "0::/\n");
    root.write("/sys/fs/cgroup/cpu.max", "99999999999 1\n");
    const troupe::Cores cores = troupe::inspect_cores(root.path());
    CHECK(cores.usable == cores.affinity);
  }

  TEST_CASE("machine: a hosts file that gives our name an address of loopback is seen") {
    const FakeRoot root;
    root.write("/hosts", "127.0.0.1 localhost here\n127.0.1.1\tbox.lan box # own\n10.0.0.1 far\n");
    CHECK(troupe::hosts_file_hides("box", root.path() + "/hosts"));
    CHECK(!troupe::hosts_file_hides("here", root.path() + "/hosts"));
    CHECK(!troupe::hosts_file_hides("own", root.path() + "/hosts"));
    CHECK(!troupe::hosts_file_hides("far", root.path() + "/hosts"));
    CHECK(!troupe::hosts_file_hides("box", root.path() + "/missing"));
  }

  TEST_CASE("machine: only the reference library is called slow") {
    using Kind = troupe::Blas::Kind;
    for (const Kind kind : {Kind::missing, Kind::openblas, Kind::mkl, Kind::blis, Kind::unknown})
      CHECK(!troupe::Blas{kind, "", ""}.slow());
    CHECK(troupe::Blas{Kind::reference, "", ""}.slow());
  }

  TEST_CASE("machine: compute threads are crowded where others take one of their cores") {
    troupe::Cores cores;
    cores.affinity = cores.usable = 2;
    CHECK(troupe::crowded_threads(2, cores, 0.3).empty());
    CHECK(troupe::crowded_threads(1, cores, 1).empty());
    CHECK(troupe::crowded_threads(2, cores, 1) ==
          "other processes keep about 1 of 2 cores busy, and 2 compute threads then wait for each "
          "other at every operation");
    cores.affinity = 8;
    CHECK(troupe::crowded_threads(6, cores, 1.5).empty());
    CHECK_FALSE(troupe::crowded_threads(8, cores, 1.5).empty());
  }

  TEST_CASE("machine: cores that do not idle are taken") {
    const FakeRoot root;
    CHECK(troupe::cores_taken(std::chrono::milliseconds(1), root.path()) == 0);
    // Nothing counts on in this file: the one core in it was busy all the while.
    root.write("/proc/stat", "cpu  9 9 9 9 9\ncpu0 1 0 1 700 20 0 0\nintr 5\n");
    const double taken = troupe::cores_taken(std::chrono::milliseconds(1), root.path());
    CHECK((taken == 1 || taken == 0));  // 0: this process may not run on it
    const double here = troupe::cores_taken(std::chrono::milliseconds(20));
    CHECK((here >= 0 && here <= troupe::inspect_cores().affinity));
  }

  TEST_CASE("machine: this one has cores, memory, a name and a loopback address") {
    const troupe::Machine machine = troupe::inspect_machine();
    CHECK(machine.cores.usable >= 1);
    CHECK(machine.cores.usable <= machine.cores.affinity);
    CHECK(machine.memory_bytes > (std::uint64_t{1} << 20));
    CHECK(!machine.name.empty());
    CHECK(machine.open_file_limit >= 16);
    CHECK(machine.loopback_error.empty());
    CHECK((machine.blas.kind == troupe::Blas::Kind::missing) == machine.blas.path.empty());
    bool loopback = false;
    for (const troupe::InterfaceAddress& each : machine.addresses)
      loopback = loopback || (each.loopback && each.address == "127.0.0.1");
    CHECK(loopback);
  }
}

}  // namespace machine_test
