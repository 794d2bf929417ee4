// Preloaded into a program and all that it starts: kills a process where it is about to make its
// N-th call that others can see, a write, rename, fsync or send. So a run can be killed at a moment
// that is the same in each run, and nothing is built into the program.
//
//   KILL_TASK=worker:0     which process: a worker by its rank, ps:0, evaluator:0, or launcher
//   KILL_AT=120            at the 120th; unset or 0: never
//   KILL_AFTER=TEXT        counted from the first write on that has this text; unset: all
//   KILL_OF=TEXT           counted are the writes that have this text; unset: as KILL_AFTER says
//   KILL_ONCE=FILE         only if the file is not there yet; it is made then
//   KILL_COUNT=FILE        FILE.worker:0, for each process: how many there were when it ended, how
//                          many after the one text, and of the other
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The launcher alone has neither variable.
std::string task() {
  const std::string rank = variable("TROUPE_RANK");
  std::string other = variable("TROUPE_TASK");
  if (!rank.empty()) return "worker:" + rank;
  return other.empty() ? "launcher" : other;
}

struct Count {
  const std::string after = variable("KILL_AFTER");
  const std::string of = variable("KILL_OF");
  const std::string once = variable("KILL_ONCE");
  const long at = variable("KILL_TASK") == task() ? std::atol(variable("KILL_AT").c_str()) : 0;
  const pid_t process = ::getpid();  // what it forks is another
  std::atomic<bool> is_late{after.empty()};
  std::atomic<long> calls{0};
  std::atomic<long> late{0};
  std::atomic<long> with_text{0};
};

/// Other libraries write before this one's objects are made, and after they are gone.
Count& count() {
  static Count& made = *new Count;
  return made;
}

struct AtEnd {
  ~AtEnd() {
    const std::string file = variable("KILL_COUNT");
    if (file.empty() || ::getpid() != count().process) return;
    if (std::FILE* out = std::fopen((file + "." + task()).c_str(), "w")) {
      const Count& all = count();
      (void)std::fprintf(out, "%ld %ld %ld\n", all.calls.load(), all.late.load(),
                         all.with_text.load());
      (void)std::fclose(out);
    }
  }
} g_at_end;

void pass(std::string_view bytes = {}) {
  Count& all = count();
  ++all.calls;
  const auto has = [bytes](const std::string& text) {
    return bytes.find(text) != std::string_view::npos;
  };
  if (has(all.after)) all.is_late = true;
  const long late = all.is_late ? ++all.late : 0;
  const long with_text = has(all.of) ? ++all.with_text : 0;
  const long now = all.of.empty() ? late : with_text;
  if (all.at == 0 || now != all.at || ::getpid() != all.process) return;
  if (!all.once.empty() && ::open(all.once.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0) return;
  (void)::kill(::getpid(), SIGKILL);
}

std::string_view text(const void* bytes, size_t size) {
  return {static_cast<const char*>(bytes), size};
}

template <class Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t size) {
  static const auto call = next(&write, "write");
  pass(text(bytes, size));
  return call(file, bytes, size);
}
size_t fwrite(const void* bytes, size_t size, size_t number, std::FILE* file) {
  static const auto call = next(&fwrite, "fwrite");
  if (file == stdout || file == stderr) pass(text(bytes, size * number));
  return call(bytes, size, number, file);
}
ssize_t writev(int file, const iovec* parts, int number) {
  static const auto call = next(&writev, "writev");
  pass();
  return call(file, parts, number);
}
ssize_t send(int socket, const void* bytes, size_t size, int flags) {
  static const auto call = next(&send, "send");
  pass();
  return call(socket, bytes, size, flags);
}
ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto call = next(&sendmsg, "sendmsg");
  pass();
  return call(socket, message, flags);
}
int fsync(int file) {
  static const auto call = next(&fsync, "fsync");
  pass();
  return call(file);
}
int rename(const char* from, const char* to) noexcept {
  static const auto call = next(&rename, "rename");
  pass();
  return call(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static const auto call = next(&renameat, "renameat");
  pass();
  return call(from_folder, from, to_folder, to);
}

}  // extern "C"
