#include "tests/programs/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/run_ranks.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace troupe::programs {
namespace {

using std::chrono::steady_clock;

constexpr int kWorkers = 2;
constexpr std::chrono::seconds kLimit{240};

/// A forked process, and what it says in its end.
class Child {
 public:
  Child() = default;
  explicit Child(const std::function<std::string()>& body) {
    int report[2];
    if (pipe(report) != 0) throw std::runtime_error("no pipe for the test");
    process_ = fork();
    if (process_ == 0) {
      const std::string says = body();
      _exit(write(report[1], says.data(), says.size()) >= 0 ? 0 : 1);
    }
    close(report[1]);
    report_.reset(report[0]);
  }

  [[nodiscard]] bool runs() const { return process_ > 0; }
  void kill() const {
    if (runs()) ::kill(process_, SIGKILL);
  }
  /// Its status, once, when it has ended.
  std::optional<int> ended() {
    int status = 0;
    if (!runs() || waitpid(process_, &status, WNOHANG) == 0) return std::nullopt;
    process_ = 0;
    return status;
  }
  [[nodiscard]] std::string says() const {
    char buffer[4096];
    const ssize_t count = read(report_.get(), buffer, sizeof buffer);
    return {buffer, count > 0 ? static_cast<std::size_t>(count) : 0};
  }

 private:
  pid_t process_ = 0;
  UniqueFd report_;
};

bool is_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

/// The launcher of one group: the rendezvous, its lines, and the processes.
class Launcher {
 public:
  explicit Launcher(const std::function<std::string(const ElasticWorker& worker)>& body)
      : body_(body) {
    Round first{1, 100, 0, {}};
    for (int i = 0; i < kWorkers; ++i) {
      testing::LoopbackListener listener;
      Worker& worker = workers_[static_cast<std::size_t>(i)];
      worker.address = {"127.0.0.1", listener.port()};
      worker.listener.reset(listener.release());
      worker.who = {i, 0};
      first.members.push_back({text("worker/", i), worker.address, false});
    }
    first_ = first;
    rendezvous_.emplace(RendezvousTerms{}, first, losses_,
                        [](std::uint64_t former) { return former + 1; });
  }

  std::string run() {
    for (int i = 0; i < kWorkers; ++i) start(i, false);
    const auto end = steady_clock::now() + kLimit;
    while (workers_[0].child.runs() || workers_[1].child.runs()) {
      wait_for_words();
      for (int i = 0; i < kWorkers; ++i) look_after(i);
      rendezvous_->tick(steady_clock::now());
      carry_out();
      if (steady_clock::now() < end) continue;
      said_ += "the group had not ended after 60 s; ";
      for (const Worker& worker : workers_) worker.child.kill();
    }
    return said_;
  }

 private:
  struct Worker {
    RoundWorker who;
    Endpoint address;
    UniqueFd listener;
    UniqueFd line;  // this end
    Child child;
  };

  void start(int index, bool joins) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    int line[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line) != 0)
      throw std::runtime_error("no socket for the test");
    worker.child = Child([&] {
      for (Worker& other : workers_) other.line.reset();  // of the launcher
      ElasticWorker own;
      own.is_victim = index == 0 && !joins;
      own.cluster.members.clear();
      for (const auto& member : first_.members)
        own.cluster.members.push_back({member.task, member.address});
      own.cluster.rank = index;
      own.cluster.generation = first_.generation;
      own.cluster.joins = joins;
      own.cluster.on_this_machine = kWorkers;
      own.cluster.listener = detail::InheritedSocket(dup(worker.listener.get()));
      own.cluster.rounds = detail::InheritedSocket(line[1]);
      return body_(own);
    });
    close(line[1]);
    worker.line.reset(line[0]);
  }

  void wait_for_words() {
    std::array<pollfd, kWorkers> lines{};
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] = {workers_[i].line.get(), POLLIN, 0};
    (void)poll(lines.data(), lines.size(), 10);
    for (Worker& worker : workers_) read(worker);
  }

  void read(Worker& worker) {
    std::vector<std::byte> buffer(kMaxRoundMessageBytes);
    while (worker.line.get() >= 0) {
      const ssize_t count = recv(worker.line.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count < 0) return;
      if (count == 0) return worker.line.reset();
      const auto message = worker_message_from({buffer.data(), static_cast<std::size_t>(count)});
      if (message) rendezvous_->take(worker.who, *message, steady_clock::now());
    }
  }

  /// Whether its process has ended, and what is to follow.
  void look_after(int index) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    const std::optional<int> status = worker.child.ended();
    if (!status) return;
    read(worker);
    const bool is_victim = index == 0 && worker.who.incarnation == 0;
    rendezvous_->ended(worker.who, is_well(*status) ? std::optional<int>(0) : std::nullopt,
                       steady_clock::now());
    const std::string says = worker.child.says();
    if (!says.empty()) said_ += text("worker/", index, ": ", says, "; ");
    if (is_well(*status)) return;
    if (!is_victim) {
      said_ += text("worker/", index, " ended with ", *status, "; ");
      return;
    }
    worker.who = rendezvous_->starts(index, worker.address);
    start(index, true);
  }

  void carry_out() {
    for (auto orders = rendezvous_->take_orders(); !orders.empty();
         orders = rendezvous_->take_orders()) {
      for (const RendezvousOrder& order : orders) {
        if (const auto* letter = std::get_if<RoundLetter>(&order)) {
          const std::string message = to_json(letter->message);
          const Worker& to = workers_[static_cast<std::size_t>(letter->to.index)];
          (void)send(to.line.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        } else if (const auto* expulsion = std::get_if<Expulsion>(&order)) {
          if (!expulsion->why.empty()) said_ += expulsion->why + "; ";
          workers_[static_cast<std::size_t>(expulsion->who.index)].child.kill();
        }
      }
    }
  }

  const std::function<std::string(const ElasticWorker& worker)>& body_;
  StepLosses losses_;
  Round first_;
  std::optional<Rendezvous> rendezvous_;
  std::array<Worker, kWorkers> workers_;
  std::string said_;
};

}  // namespace

std::string as_processes(int count, const std::function<std::string(int process)>& body) {
  std::vector<Child> children;
  for (int i = 0; i < count; ++i) children.emplace_back([&body, i] { return body(i); });
  std::string said;
  int running = count;
  const auto all_ended = [&] {
    for (int i = 0; i < count; ++i) {
      Child& child = children[static_cast<std::size_t>(i)];
      const std::optional<int> status = child.ended();
      if (!status) continue;
      --running;
      const std::string says = child.says();
      if (!says.empty()) said += text("process ", i, ": ", says, "; ");
      if (!is_well(*status)) said += text("process ", i, " ended with ", *status, "; ");
    }
    return running == 0;
  };
  if (testing::eventually(all_ended)) return said;
  for (const Child& child : children) child.kill();
  (void)testing::eventually(all_ended);
  return said + "they had not ended after 60 s; ";
}

std::string as_elastic_workers(
    const std::function<std::string(const ElasticWorker& worker)>& body) {
  return Launcher(body).run();
}

}  // namespace troupe::programs
