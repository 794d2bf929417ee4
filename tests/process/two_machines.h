// Two machines, as far as programs can tell: network namespaces with a cable between them (veth)
// and, where asked for, an ssh server each. Needs root, iproute2 and openssh-server.
#pragma once

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"

namespace troupe::testing {

using Words = std::vector<std::string>;

class TwoMachines {
 public:
  static constexpr const char* kAddresses[] = {"10.77.0.1", "10.77.0.2"};

  enum class Ssh { with, without };
  explicit TwoMachines(Ssh ssh) : ssh_(ssh), lacks_(make()) {}
  ~TwoMachines() {
    for (int machine = 0; machine < 2; ++machine) {
      int server = 0;
      std::ifstream(folder_ / ("sshd.pid" + std::to_string(machine))) >> server;
      if (server > 0) kill(server, SIGTERM);
      if (geteuid() == 0) run({"ip", "netns", "del", names_[machine]});
    }
  }
  TwoMachines(const TwoMachines&) = delete;
  TwoMachines& operator=(const TwoMachines&) = delete;

  /// What this machine lacks for them; empty: nothing.
  [[nodiscard]] const std::string& lacks() const { return lacks_; }
  /// `command`, run on one of them.
  [[nodiscard]] Words on(int machine, const Words& command) const {
    Words words = {"ip", "netns", "exec", names_[machine]};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  /// The command that reaches the other machine.
  [[nodiscard]] std::string ssh() const {
    return "ssh -p 22022 -i " + (folder_ / "user").string() +
           " -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR";
  }
  void cut_cable() const { run({"ip", "-n", names_[0], "link", "set", "cable", "down"}); }
  /// From now on nothing that machine `from` sends arrives: it goes to a card that nobody has.
  void cut_way(int from) const {
    run({"ip", "-n", names_[from], "neigh", "replace", kAddresses[1 - from], "lladdr",
         "02:00:00:00:00:01", "dev", "cable", "nud", "permanent"});
  }
  void mend() const {
    run({"ip", "-n", names_[0], "link", "set", "cable", "up"});
    for (int from = 0; from < 2; ++from)
      run({"ip", "-n", names_[from], "neigh", "del", kAddresses[1 - from], "dev", "cable"});
  }

 private:
  static bool run(const Words& command) { return run_process(command).exit_code == 0; }
  std::string make() {
    if (geteuid() != 0) return "root";
    const bool has_server = ::access("/usr/sbin/sshd", X_OK) == 0;
    if (ssh_ == Ssh::with && !has_server) return "/usr/sbin/sshd (openssh-server)";
    if (ssh_ == Ssh::with && !run({"mpirun", "--version"})) return "mpirun (openmpi-bin)";
    for (const std::string& name : names_)
      if (!run({"ip", "netns", "add", name}) || !run({"ip", "netns", "exec", name, "true"}))
        return "network namespaces (ip netns)";
    run({"ip", "link", "add", "cable", "netns", names_[0], "type", "veth", "peer", "name", "cable",
         "netns", names_[1]});
    for (int machine = 0; machine < 2; ++machine) connect(machine);
    if (ssh_ == Ssh::without) return "";
    ::mkdir("/run/sshd", 0755);
    for (const char* key : {"host", "user"})
      run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", (folder_ / key).string()});
    return serve(0) && serve(1) ? "" : "an ssh server that starts";
  }
  void connect(int machine) {
    const std::string& name = names_[machine];
    const std::string address = kAddresses[machine];
    run({"ip", "-n", name, "addr", "add", address + "/24", "dev", "cable"});
    run({"ip", "-n", name, "link", "set", "lo", "up"});
    run({"ip", "-n", name, "link", "set", "cable", "up"});
  }
  bool serve(int machine) {
    const std::string number = std::to_string(machine);
    const std::string file = (folder_ / ("sshd.conf" + number)).string();
    std::ofstream(file) << "Port 22022\nListenAddress " << kAddresses[machine] << "\nHostKey "
                        << (folder_ / "host").string() << "\nAuthorizedKeysFile "
                        << (folder_ / "user.pub").string()
                        << "\nUsePAM no\nPasswordAuthentication no\nStrictModes no\n"
                           "PermitRootLogin yes\nPidFile "
                        << (folder_ / ("sshd.pid" + number)).string() << '\n';
    return run(on(machine, {"/usr/sbin/sshd", "-f", file, "-E", (folder_ / "sshd.log").string()}));
  }

  TempDir folder_;
  const Ssh ssh_;
  const std::string names_[2] = {"troupe-a" + std::to_string(getpid()),
                                 "troupe-b" + std::to_string(getpid())};
  std::string lacks_;
};

}  // namespace troupe::testing
