// Preloaded into a program: kills its process where it is about to make its N-th call that others
// can see, a write, rename, fsync or send. So a run can be killed at a moment that is the same in
// each run, and nothing is built into the program.
//
//   KILL_AT=120        at the 120th; unset or 0: never
//   KILL_RANK=0        only the process whose TROUPE_RANK this is; unset: only one without
//   KILL_ONCE=FILE     only if the file is not there yet; it is made then
//   KILL_COUNT=FILE    writes how many there were when the process ends
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

namespace {

std::atomic<long> g_calls{0};

bool is_meant() {
  const char* const rank = std::getenv("TROUPE_RANK");
  const char* const wanted = std::getenv("KILL_RANK");
  if (wanted == nullptr) return rank == nullptr;
  return rank != nullptr && std::strcmp(rank, wanted) == 0;
}

long moment() {
  static const long at = [] {
    const char* const given = std::getenv("KILL_AT");
    return given != nullptr && is_meant() ? std::atol(given) : 0;
  }();
  return at;
}

void pass() {
  if (++g_calls != moment()) return;
  const char* const once = std::getenv("KILL_ONCE");
  if (once != nullptr && ::open(once, O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0) return;
  (void)::kill(::getpid(), SIGKILL);
}

struct Count {
  ~Count() {
    const char* const file = std::getenv("KILL_COUNT");
    if (file == nullptr || !is_meant()) return;
    if (std::FILE* out = std::fopen(file, "w")) {
      (void)std::fprintf(out, "%ld\n", g_calls.load());
      (void)std::fclose(out);
    }
  }
} g_count;

template <class Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
  static const auto call = next(&write, "write");
  pass();
  return call(file, bytes, count);
}
ssize_t writev(int file, const iovec* parts, int count) {
  static const auto call = next(&writev, "writev");
  pass();
  return call(file, parts, count);
}
ssize_t send(int socket, const void* bytes, size_t count, int flags) {
  static const auto call = next(&send, "send");
  pass();
  return call(socket, bytes, count, flags);
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
