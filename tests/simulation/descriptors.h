// Descriptors: what simulated processes have open. Numbers above kFirstDescriptor are ours, those
// below are the system's.
#pragma once

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/world.h"

namespace troupe::simulation {

inline constexpr int kFirstDescriptor = 1 << 20;

class Epoll;

/// An open file. Readiness is EPOLLIN, EPOLLOUT and so on, which poll(2) has the same numbers for.
class File {
 public:
  virtual ~File() = default;
  [[nodiscard]] virtual std::uint32_t ready() const = 0;
  /// The last descriptor is closed.
  virtual void on_close() {}

  /// What ready() says may have changed: who waits for it looks.
  void changed();

  Process* owner = nullptr;
  int descriptors = 0;  // that name it
  bool is_open = true;
  bool may_block = true;
  std::vector<Thread*> pollers;
  std::vector<Epoll*> watchers;
};

/// The table. One for all processes; each file has one owner.
class Descriptors {
 public:
  Descriptors();
  static Descriptors& the();

  int add(std::shared_ptr<File> file) { return add(std::move(file), World::the().process()); }
  /// What a process finds open when it begins.
  int add(std::shared_ptr<File> file, Process& owner);
  /// Another number of the same file.
  int copy(int descriptor);
  /// Null: none of ours.
  [[nodiscard]] std::shared_ptr<File> find(int descriptor) const;
  template <class Kind>
  [[nodiscard]] std::shared_ptr<Kind> find_as(int descriptor) const {
    return std::dynamic_pointer_cast<Kind>(find(descriptor));
  }
  /// The same number is another file from now on: a socket that begins to listen.
  void replace(int descriptor, std::shared_ptr<File> file);
  bool close(int descriptor);
  void close_all_of(Process& process);

 private:
  int place(std::shared_ptr<File> file);

  std::map<int, std::shared_ptr<File>> files_;
};

class Event final : public File {
 public:
  explicit Event(std::uint64_t count) : count_(count) {}
  [[nodiscard]] std::uint32_t ready() const override {
    return (count_ > 0 ? EPOLLIN : 0U) | EPOLLOUT;
  }
  void add(std::uint64_t count);
  std::uint64_t take() { return std::exchange(count_, 0); }

 private:
  std::uint64_t count_;
};

class Timer final : public File, public std::enable_shared_from_this<Timer> {
 public:
  [[nodiscard]] std::uint32_t ready() const override { return is_over_ ? EPOLLIN : 0U; }
  void set(int flags, const itimerspec& to);

 private:
  bool is_over_ = false;
  std::uint64_t setting_ = 0;
};

class Epoll final : public File {
 public:
  [[nodiscard]] std::uint32_t ready() const override { return 0; }
  void on_close() override;
  /// As epoll_ctl(2); 0 or an errno.
  int control(int what, const std::shared_ptr<File>& file, const epoll_event* event);
  /// Of what is ready at most `most`.
  int collect(epoll_event* into, int most);
  void look_at(File& file);
  void forget(File& file);
  /// What `former` was, `file` is now.
  void follow(File& former, const std::shared_ptr<File>& file);

 private:
  struct Interest {
    epoll_event wanted;
    bool is_listed;
  };
  void list(File& file, Interest& interest);
  void stop_watching(File& file);
  std::map<File*, Interest> interests_;
  std::vector<File*> listed_;  // may be ready, in the order in which they became so
};

}  // namespace troupe::simulation
