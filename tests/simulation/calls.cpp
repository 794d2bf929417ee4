// The system as the processes of a simulation find it: the C library's calls, defined here, so that
// this program and its libraries get these and not the system's. What is not asked for from inside
// a simulation, or for a descriptor of ours, goes on to the system.
//
// So the code under test, Boost.Asio included, is the one that users run, to the last byte: it was
// not compiled for this, and does not know.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/simulation/descriptors.h"
#include "tests/simulation/network.h"
#include "tests/simulation/packets.h"
#include "tests/simulation/world.h"

namespace troupe::simulation {
namespace {

// The wall clock of a world begins on 1 January 2030.
constexpr Time kEpoch = Time{1'893'456'000} * kSecond;

template <class Function>
Function* system_call(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "simulate: the system has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

// The system's function of the same name as the one that asks.
#define THE_SYSTEMS(function) \
  static auto* const the_systems = system_call<decltype(::function)>(#function)

[[noreturn]] void not_simulated(const char* what) {
  std::fprintf(stderr, "simulate: %s is not simulated\n", what);
  std::abort();
}

long result_of(long value) {
  if (value >= 0) return value;
  errno = static_cast<int>(-value);
  return -1;
}

Time time_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

timespec timespec_of(Time time) { return {time / kSecond, time % kSecond}; }

// A wait for `when`, or for `is_over`, whoever of `files` tells of it.
template <class Files, class IsOver>
void wait_for(const Files& files, Time when, const IsOver& is_over) {
  World& world = World::the();
  Thread* const me = &world.present();
  for (const auto& file : files) file->pollers.push_back(me);
  while (!is_over() && world.now() < when) world.wait(when);
  for (const auto& file : files) {
    auto& pollers = file->pollers;
    pollers.erase(std::remove(pollers.begin(), pollers.end(), me), pollers.end());
  }
}

Time end_of(int milliseconds) {
  return milliseconds < 0 ? kNever : World::the().now() + milliseconds * kMillisecond;
}

int look_at(pollfd* waits, nfds_t count) {
  int ready = 0;
  for (nfds_t i = 0; i < count; ++i) {
    const auto file = Descriptors::the().find(waits[i].fd);
    const auto wanted = static_cast<std::uint32_t>(waits[i].events) | POLLERR | POLLHUP;
    waits[i].revents = static_cast<short>(file ? file->ready() & wanted : POLLNVAL);
    if (waits[i].revents != 0) ++ready;
  }
  return ready;
}

int simulated_poll(pollfd* waits, nfds_t count, int limit) {
  World::the().begin_call();
  std::vector<std::shared_ptr<File>> files;
  for (nfds_t i = 0; i < count; ++i) {
    if (auto file = Descriptors::the().find(waits[i].fd)) files.push_back(std::move(file));
  }
  int ready = 0;
  wait_for(files, end_of(limit), [&] { return (ready = look_at(waits, count)) > 0; });
  return ready;
}

long receive_from(int fd, const std::vector<Span<std::byte>>& parts, int* file) {
  World::the().begin_call();
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return result_of(-EBADF);
  const long came = stream->receive(parts, file);
  return result_of(came);
}

long send_to(int fd, const std::vector<Span<const std::byte>>& parts, int file) {
  World::the().begin_call();
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return result_of(-EBADF);
  return result_of(stream->send(parts, file));
}

long receive_packet(Packets& packets, Span<std::byte> into) {
  World::the().begin_call();
  const auto self = packets.shared_from_this();
  wait_for(std::vector<std::shared_ptr<File>>{self}, packets.may_block ? kNever : 0,
           [&] { return packets.ready() != 0; });
  return result_of(packets.receive(into));
}

// Condition variables.

void sleep_on(const void* condition, pthread_mutex_t* mutex, Time when) {
  World& world = World::the();
  auto& sleepers = world.sleepers[condition];
  sleepers.push_back(&world.present());
  ::pthread_mutex_unlock(mutex);
  world.wait(when);
  auto& now_sleeping = world.sleepers[condition];
  now_sleeping.erase(std::remove(now_sleeping.begin(), now_sleeping.end(), &world.present()),
                     now_sleeping.end());
  ::pthread_mutex_lock(mutex);
}

int wake_sleepers(const void* condition) {
  World& world = World::the();
  const auto found = world.sleepers.find(condition);
  if (found == world.sleepers.end()) return 0;
  const auto all = found->second;
  world.sleepers.erase(found);
  for (Thread* thread : all) world.wake(*thread);
  return static_cast<int>(all.size());
}

Time deadline_of(const timespec* when) {
  const Time time = time_of(*when);
  return time >= kEpoch ? time - kEpoch : time;
}

// Futexes in shared memory: the same word has another address in each process.

struct Mapping {
  std::size_t bytes;
  ino_t memory;
};
std::map<const char*, Mapping>& mappings() {
  static std::map<const char*, Mapping> all;
  return all;
}

const void* identity_of(const void* word) {
  const char* const at = static_cast<const char*>(word);
  auto found = mappings().upper_bound(at);
  if (found == mappings().begin()) return word;
  --found;
  if (at >= found->first + found->second.bytes) return word;
  // No process has that much memory: numbers of words, not their addresses.
  const std::uint64_t number =
      (std::uint64_t{found->second.memory} << 36U) + static_cast<std::uint64_t>(at - found->first);
  return reinterpret_cast<const void*>((std::uint64_t{1} << 63U) + number);
}

long simulated_futex(const void* word, int operation, std::uint32_t value, const timespec* limit) {
  World& world = World::the();
  world.begin_call();
  const int what = operation & FUTEX_CMD_MASK;
  if (what == FUTEX_WAKE) return wake_sleepers(identity_of(word));
  if (what != FUTEX_WAIT) not_simulated("this use of futex(2)");
  const auto now = [word] {
    return __atomic_load_n(static_cast<const std::uint32_t*>(word), __ATOMIC_SEQ_CST);
  };
  if (now() != value) return result_of(-EAGAIN);
  const Time when = limit == nullptr ? kNever : world.now() + time_of(*limit);
  const void* const identity = identity_of(word);
  world.sleepers[identity].push_back(&world.present());
  world.wait(when);
  auto& sleepers = world.sleepers[identity];
  sleepers.erase(std::remove(sleepers.begin(), sleepers.end(), &world.present()), sleepers.end());
  return world.now() >= when ? result_of(-ETIMEDOUT) : 0;
}

bool refuses_memory() { return World::is_inside() && World::the().process().memory_is_full; }

}  // namespace
}  // namespace troupe::simulation

using namespace troupe::simulation;  // NOLINT: what follows belongs to no namespace
using troupe::Span;

extern "C" {

// Time.

int clock_gettime(clockid_t clock, timespec* into) {
  if (!World::is_inside()) return static_cast<int>(::syscall(SYS_clock_gettime, clock, into));
  // The log's own looks move nothing: who replays a story sees more of it.
  const bool is_for_log = clock == CLOCK_REALTIME;
  *into = timespec_of(is_for_log ? kEpoch + World::the().now() : World::the().look_at_clock());
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  THE_SYSTEMS(nanosleep);
  if (!World::is_inside()) return the_systems(time, left);
  const Time when = World::the().now() + time_of(*time);
  while (World::the().now() < when) World::the().wait(when);
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  THE_SYSTEMS(clock_nanosleep);
  if (!World::is_inside()) return the_systems(clock, flags, time, left);
  const bool is_absolute = (flags & TIMER_ABSTIME) != 0;
  const Time when = is_absolute ? deadline_of(time) : World::the().now() + time_of(*time);
  while (World::the().now() < when) World::the().wait(when);
  return 0;
}

int sched_yield() {
  THE_SYSTEMS(sched_yield);
  if (!World::is_inside()) return the_systems();
  World::the().wait(World::the().now());
  return 0;
}

// Random numbers (OpenSSL's name; distributed/net/ and distributed/ ask for them there).

int RAND_bytes(unsigned char* into, int count) {
  static auto* const the_systems = system_call<int(unsigned char*, int)>("RAND_bytes");
  if (!World::is_inside()) return the_systems(into, count);
  for (int i = 0; i < count; ++i) {
    into[i] = static_cast<unsigned char>(World::the().nonces.next());
  }
  return 1;
}

// Threads.

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  THE_SYSTEMS(pthread_create);
  if (!World::is_inside()) return the_systems(thread, attributes, body, argument);
  Thread& made = World::the().spawn([body, argument] { body(argument); });
  *thread = reinterpret_cast<pthread_t>(&made);
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  THE_SYSTEMS(pthread_join);
  if (!World::is_inside()) return the_systems(thread, result);
  auto& joined = *reinterpret_cast<Thread*>(thread);
  while (!joined.fiber.ended()) {
    joined.joiners.push_back(&World::the().present());
    World::the().wait(kNever);
  }
  return 0;
}

int pthread_detach(pthread_t thread) {
  THE_SYSTEMS(pthread_detach);
  return World::is_inside() ? 0 : the_systems(thread);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!World::is_inside()) not_simulated("pthread_cond_wait outside a world");
  sleep_on(condition, mutex, kNever);
  return 0;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* when) {
  if (!World::is_inside()) not_simulated("pthread_cond_timedwait outside a world");
  const Time end = deadline_of(when);
  sleep_on(condition, mutex, end);
  return World::the().now() >= end ? ETIMEDOUT : 0;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t /*clock*/,
                           const timespec* when) {
  return pthread_cond_timedwait(condition, mutex, when);
}

int pthread_cond_signal(pthread_cond_t* condition) {
  if (World::is_inside()) wake_sleepers(condition);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) { return pthread_cond_signal(condition); }

// Few threads pause with a mutex in their hands; who finds it taken waits until they let go.

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  THE_SYSTEMS(pthread_mutex_lock);
  if (!World::is_inside()) return the_systems(mutex);
  while (::pthread_mutex_trylock(mutex) != 0) {
    World::the().sleepers[mutex].push_back(&World::the().present());
    World::the().wait(kNever);
  }
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  THE_SYSTEMS(pthread_mutex_unlock);
  const int result = the_systems(mutex);
  if (World::is_inside()) wake_sleepers(mutex);
  return result;
}

long syscall(long number, ...) {
  THE_SYSTEMS(syscall);
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && World::is_inside()) {
    return simulated_futex(reinterpret_cast<const void*>(arguments[0]),
                           static_cast<int>(arguments[1]), static_cast<std::uint32_t>(arguments[2]),
                           reinterpret_cast<const timespec*>(arguments[3]));
  }
  return the_systems(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                     arguments[5]);
}

// Descriptors of every kind.

int close(int fd) {
  THE_SYSTEMS(close);
  if (fd < kFirstDescriptor) return the_systems(fd);
  World::the().begin_call();
  return Descriptors::the().close(fd) ? 0 : static_cast<int>(result_of(-EBADF));
}

ssize_t read(int fd, void* into, std::size_t size) {
  THE_SYSTEMS(read);
  if (fd < kFirstDescriptor) return the_systems(fd, into, size);
  if (const auto event = Descriptors::the().find_as<Event>(fd)) {
    const std::uint64_t count = event->take();
    if (count == 0) return result_of(-EAGAIN);
    std::memcpy(into, &count, sizeof(count));
    return sizeof(count);
  }
  return receive_from(fd, {{static_cast<std::byte*>(into), size}}, nullptr);
}

ssize_t write(int fd, const void* from, std::size_t size) {
  THE_SYSTEMS(write);
  if (fd < kFirstDescriptor) return the_systems(fd, from, size);
  if (const auto event = Descriptors::the().find_as<Event>(fd)) {
    std::uint64_t count = 0;
    std::memcpy(&count, from, sizeof(count));
    event->add(count);
    return sizeof(count);
  }
  return send_to(fd, {{static_cast<const std::byte*>(from), size}}, -1);
}

int fcntl(int fd, int what, ...) {
  static auto* const the_systems = system_call<int(int, int, ...)>("fcntl");
  va_list list;
  va_start(list, what);
  const long argument = va_arg(list, long);
  va_end(list);
  if (fd < kFirstDescriptor) return the_systems(fd, what, argument);
  if (what == F_DUPFD_CLOEXEC) return Descriptors::the().copy(fd);
  if (what == F_SETFL) {
    if (const auto file = Descriptors::the().find(fd)) file->may_block = !(argument & O_NONBLOCK);
  }
  return 0;
}
int fcntl64(int fd, int what, ...) {
  va_list list;
  va_start(list, what);
  const long argument = va_arg(list, long);
  va_end(list);
  return fcntl(fd, what, argument);
}

int ioctl(int fd, unsigned long what, ...) {
  static auto* const the_systems = system_call<int(int, unsigned long, ...)>("ioctl");
  va_list list;
  va_start(list, what);
  void* const argument = va_arg(list, void*);
  va_end(list);
  if (fd < kFirstDescriptor) return the_systems(fd, what, argument);
  const auto file = Descriptors::the().find(fd);
  if (!file) return static_cast<int>(result_of(-EBADF));
  if (what == FIONBIO) file->may_block = *static_cast<int*>(argument) == 0;
  return 0;
}

// Waiting.

int poll(pollfd* waits, nfds_t count, int limit) {
  THE_SYSTEMS(poll);
  return World::is_inside() ? simulated_poll(waits, count, limit)
                            : the_systems(waits, count, limit);
}
int __poll_chk(pollfd* waits, nfds_t count, int limit, std::size_t /*size*/) {  // NOLINT
  return poll(waits, count, limit);
}

int epoll_create1(int flags) {
  THE_SYSTEMS(epoll_create1);
  return World::is_inside() ? Descriptors::the().add(std::make_shared<Epoll>())
                            : the_systems(flags);
}

int epoll_ctl(int epoll, int what, int fd, epoll_event* event) {
  THE_SYSTEMS(epoll_ctl);
  if (epoll < kFirstDescriptor) return the_systems(epoll, what, fd, event);
  const auto set = Descriptors::the().find_as<Epoll>(epoll);
  const auto file = Descriptors::the().find(fd);
  if (!set || !file) return static_cast<int>(result_of(-EBADF));
  return static_cast<int>(result_of(-set->control(what, file, event)));
}

int epoll_wait(int epoll, epoll_event* into, int most, int limit) {
  THE_SYSTEMS(epoll_wait);
  if (epoll < kFirstDescriptor) return the_systems(epoll, into, most, limit);
  World::the().begin_call();
  const auto set = Descriptors::the().find_as<Epoll>(epoll);
  if (!set) return static_cast<int>(result_of(-EBADF));
  int count = 0;
  wait_for(std::vector<std::shared_ptr<File>>{set}, end_of(limit),
           [&] { return (count = set->collect(into, most)) > 0; });
  return count;
}

int eventfd(unsigned count, int flags) {
  THE_SYSTEMS(eventfd);
  return World::is_inside() ? Descriptors::the().add(std::make_shared<Event>(count))
                            : the_systems(count, flags);
}

/// Only what waits for signals has one, and no signal comes.
int pipe(int* ends) {
  THE_SYSTEMS(pipe);
  if (!World::is_inside()) return the_systems(ends);
  for (int end : {0, 1}) ends[end] = Descriptors::the().add(std::make_shared<Event>(0));
  return 0;
}

int timerfd_create(int clock, int flags) {
  THE_SYSTEMS(timerfd_create);
  return World::is_inside() ? Descriptors::the().add(std::make_shared<Timer>())
                            : the_systems(clock, flags);
}

int timerfd_settime(int fd, int flags, const itimerspec* to, itimerspec* from) {
  THE_SYSTEMS(timerfd_settime);
  if (fd < kFirstDescriptor) return the_systems(fd, flags, to, from);
  if (from != nullptr) *from = {};
  const auto timer = Descriptors::the().find_as<Timer>(fd);
  if (!timer) return static_cast<int>(result_of(-EBADF));
  timer->set(flags, *to);
  return 0;
}

// Sockets.

int socket(int family, int type, int protocol) {
  THE_SYSTEMS(socket);
  if (!World::is_inside()) return the_systems(family, type, protocol);
  if (family != AF_INET && family != AF_UNIX) {
    return static_cast<int>(result_of(-EAFNOSUPPORT));
  }
  World::the().begin_call();
  const std::string& host = World::the().process().host;
  return Descriptors::the().add(std::make_shared<Stream>(family, host));
}

int bind(int fd, const sockaddr* to, socklen_t size) {
  THE_SYSTEMS(bind);
  if (fd < kFirstDescriptor) return the_systems(fd, to, size);
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return static_cast<int>(result_of(-EBADF));
  Address wanted = Address::of(to, size);
  if (stream->family == AF_INET) {
    if (wanted.host() != stream->host) return static_cast<int>(result_of(-EADDRNOTAVAIL));
    if (wanted.port() == 0) wanted = Address::tcp(wanted.host(), Network::the().free_port());
  }
  if (Network::the().listener_at(wanted, stream->host)) {
    return static_cast<int>(result_of(-EADDRINUSE));
  }
  stream->local = wanted;
  return 0;
}

int listen(int fd, int backlog) {
  THE_SYSTEMS(listen);
  if (fd < kFirstDescriptor) return the_systems(fd, backlog);
  if (Descriptors::the().find_as<Listener>(fd)) return 0;
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return static_cast<int>(result_of(-EBADF));
  const auto listener = std::make_shared<Listener>();
  listener->local = stream->local;
  if (!Network::the().listen(listener, stream->host)) {
    return static_cast<int>(result_of(-EADDRINUSE));
  }
  Descriptors::the().replace(fd, listener);
  return 0;
}

int accept(int fd, sockaddr* from, socklen_t* size) {
  THE_SYSTEMS(accept);
  if (fd < kFirstDescriptor) return the_systems(fd, from, size);
  World::the().begin_call();
  const auto listener = Descriptors::the().find_as<Listener>(fd);
  if (!listener) return static_cast<int>(result_of(-EBADF));
  if (World::the().process().descriptors_are_out) return static_cast<int>(result_of(-EMFILE));
  const auto stream = listener->take();
  if (!stream) {
    if (listener->may_block) not_simulated("an accept(2) that blocks");
    return static_cast<int>(result_of(-EAGAIN));
  }
  stream->remote.give(from, size);
  return Descriptors::the().add(stream);
}

int connect(int fd, const sockaddr* to, socklen_t size) {
  THE_SYSTEMS(connect);
  if (fd < kFirstDescriptor) return the_systems(fd, to, size);
  World::the().begin_call();
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return static_cast<int>(result_of(-EBADF));
  return static_cast<int>(result_of(stream->connect(Address::of(to, size))));
}

int shutdown(int fd, int how) {
  THE_SYSTEMS(shutdown);
  if (fd < kFirstDescriptor) return the_systems(fd, how);
  const auto packets = Descriptors::the().find_as<Packets>(fd);
  if (!packets || how != SHUT_RDWR) not_simulated("this use of shutdown(2)");
  packets->shut_down();
  return 0;
}

int getsockname(int fd, sockaddr* into, socklen_t* size) {
  THE_SYSTEMS(getsockname);
  if (fd < kFirstDescriptor) return the_systems(fd, into, size);
  if (const auto listener = Descriptors::the().find_as<Listener>(fd)) {
    listener->local.give(into, size);
    return 0;
  }
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return static_cast<int>(result_of(-EBADF));
  Address local = stream->local;
  if (local.size == 0) {
    local.bytes.ss_family = static_cast<sa_family_t>(stream->family);
    local.size = stream->family == AF_UNIX ? sizeof(sa_family_t) : sizeof(sockaddr_in);
  }
  local.give(into, size);
  return 0;
}

int getpeername(int fd, sockaddr* into, socklen_t* size) {
  THE_SYSTEMS(getpeername);
  if (fd < kFirstDescriptor) return the_systems(fd, into, size);
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (!stream) return static_cast<int>(result_of(-EBADF));
  if (!stream->is_connected()) return static_cast<int>(result_of(-ENOTCONN));
  Address remote = stream->remote;
  if (remote.size == 0) {
    remote.bytes.ss_family = static_cast<sa_family_t>(stream->family);
    remote.size = sizeof(sa_family_t);
  }
  remote.give(into, size);
  return 0;
}

int getsockopt(int fd, int level, int option, void* into, socklen_t* size) {
  THE_SYSTEMS(getsockopt);
  if (fd < kFirstDescriptor) return the_systems(fd, level, option, into, size);
  const auto file = Descriptors::the().find(fd);
  if (!file) return static_cast<int>(result_of(-EBADF));
  const auto stream = std::dynamic_pointer_cast<Stream>(file);
  if (level == SOL_SOCKET && option == SO_PEERCRED) {
    if (!stream || !stream->peer()) return static_cast<int>(result_of(-ENOTCONN));
    const Process* const peer = stream->peer()->owner;
    const ucred who{peer == nullptr ? 0 : peer->number, ::geteuid(), ::getegid()};
    std::memcpy(into, &who, std::min<std::size_t>(*size, sizeof(who)));
    return 0;
  }
  int value = 0;
  if (level == SOL_SOCKET && option == SO_ERROR && stream) value = stream->take_error();
  if (level == SOL_SOCKET && option == SO_ACCEPTCONN) value = stream ? 0 : 1;
  if (level == SOL_SOCKET && option == SO_TYPE) value = stream ? SOCK_STREAM : SOCK_SEQPACKET;
  constexpr int kSegment = 1448;
  if (level == IPPROTO_TCP) {
    if (stream && stream->family == AF_UNIX) return static_cast<int>(result_of(-EOPNOTSUPP));
    value = kSegment;  // TCP_MAXSEG
  }
  std::memcpy(into, &value, std::min<std::size_t>(*size, sizeof(value)));
  return 0;
}

int setsockopt(int fd, int level, int option, const void* from, socklen_t size) {
  THE_SYSTEMS(setsockopt);
  if (fd < kFirstDescriptor) return the_systems(fd, level, option, from, size);
  const auto stream = Descriptors::the().find_as<Stream>(fd);
  if (stream && level == SOL_SOCKET && option == SO_LINGER) {
    const auto& how = *static_cast<const linger*>(from);
    stream->lingers = how.l_onoff == 0 || how.l_linger > 0;
  }
  return 0;
}

ssize_t recv(int fd, void* into, std::size_t size, int flags) {
  THE_SYSTEMS(recv);
  if (fd < kFirstDescriptor) return the_systems(fd, into, size, flags);
  if (const auto packets = Descriptors::the().find_as<Packets>(fd))
    return receive_packet(*packets, {static_cast<std::byte*>(into), size});
  return receive_from(fd, {{static_cast<std::byte*>(into), size}}, nullptr);
}
ssize_t __recv_chk(int fd, void* into, std::size_t size, std::size_t /*room*/,  // NOLINT
                   int flags) {
  return recv(fd, into, size, flags);
}
ssize_t __read_chk(int fd, void* into, std::size_t size, std::size_t /*room*/) {  // NOLINT
  return read(fd, into, size);
}

ssize_t send(int fd, const void* from, std::size_t size, int flags) {
  THE_SYSTEMS(send);
  if (fd < kFirstDescriptor) return the_systems(fd, from, size, flags);
  if (const auto packets = Descriptors::the().find_as<Packets>(fd)) {
    World::the().begin_call();
    return result_of(packets->send({static_cast<const std::byte*>(from), size}));
  }
  return send_to(fd, {{static_cast<const std::byte*>(from), size}}, -1);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  THE_SYSTEMS(recvmsg);
  if (fd < kFirstDescriptor) return the_systems(fd, message, flags);
  std::vector<Span<std::byte>> parts;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    parts.emplace_back(static_cast<std::byte*>(message->msg_iov[i].iov_base),
                       message->msg_iov[i].iov_len);
  }
  int file = -1;
  cmsghdr* const control = CMSG_FIRSTHDR(message);
  const long came = receive_from(fd, parts, control == nullptr ? nullptr : &file);
  if (control == nullptr) return came;
  message->msg_controllen = 0;
  if (came > 0 && file >= 0) {
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(file));
    std::memcpy(CMSG_DATA(control), &file, sizeof(file));
    message->msg_controllen = CMSG_SPACE(sizeof(file));
  }
  return came;
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  THE_SYSTEMS(sendmsg);
  if (fd < kFirstDescriptor) return the_systems(fd, message, flags);
  std::vector<Span<const std::byte>> parts;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    parts.emplace_back(static_cast<const std::byte*>(message->msg_iov[i].iov_base),
                       message->msg_iov[i].iov_len);
  }
  int file = -1;
  const cmsghdr* const control = CMSG_FIRSTHDR(message);
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&file, CMSG_DATA(control), sizeof(file));
    file = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
  }
  const long went = send_to(fd, parts, file);
  if (went < 0 && file >= 0) ::close(file);
  return went;
}

int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  THE_SYSTEMS(getaddrinfo);
  if (!World::is_inside()) return the_systems(name, service, hints, found);
  addrinfo numeric = hints == nullptr ? addrinfo{} : *hints;
  numeric.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
  return the_systems(name, service, &numeric, found);
}

// Shared memory, of which a machine may have no more.

int memfd_create(const char* name, unsigned flags) {
  THE_SYSTEMS(memfd_create);
  return refuses_memory() && World::the().random.one_in(2) ? static_cast<int>(result_of(-EMFILE))
                                                           : the_systems(name, flags);
}

int posix_fallocate(int fd, off_t from, off_t size) {
  THE_SYSTEMS(posix_fallocate);
  return refuses_memory() ? ENOSPC : the_systems(fd, from, size);
}

void* mmap(void* at, std::size_t size, int protection, int flags, int fd, off_t from) {
  THE_SYSTEMS(mmap);
  if (fd >= 0 && refuses_memory()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  if (World::is_inside()) flags &= ~MAP_POPULATE;
  void* const made = the_systems(at, size, protection, flags, fd, from);
  struct stat facts {};
  if (World::is_inside() && fd >= 0 && made != MAP_FAILED && ::fstat(fd, &facts) == 0) {
    mappings()[static_cast<char*>(made)] = {size, facts.st_ino};
  }
  return made;
}

int munmap(void* at, std::size_t size) noexcept {
  THE_SYSTEMS(munmap);
  if (World::is_inside()) mappings().erase(static_cast<char*>(at));
  return the_systems(at, size);
}

}  // extern "C"
