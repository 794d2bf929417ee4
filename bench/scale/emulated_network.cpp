#include "bench/scale/emulated_network.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bench/scale/network_port.h"
#include "core/check.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kMaxPacketBytes = kPacketHeaderBytes + 65'536;
constexpr int kReadsPerTurn = 16;  // of one port, before the others have theirs
constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kOnlyAck = 0x10;
constexpr std::uint64_t kStopKey = ~std::uint64_t{0};
constexpr std::uint64_t kTimerKey = kStopKey - 1;

void check_made(int fd, const char* what) {
  if (fd >= 0) return;
  throw EnvironmentError(text("no emulated network: ", what, ": ", std::strerror(errno), "."),
                         "raise the limit on open files (ulimit -n).");
}

std::uint32_t big_endian(const std::byte* at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8U | std::to_integer<std::uint32_t>(at[i]);
  return value;
}

/// What of a packet the network needs to know; `to` is -1 where it is not for one of our ports.
Packet inspect(const std::byte* ip, std::size_t bytes, int from) {
  Packet packet{from, -1, bytes, false, 0};
  constexpr std::size_t kIpHeader = 20;
  if (bytes < kIpHeader || (std::to_integer<int>(ip[0]) >> 4) != 4) return packet;
  packet.to = port_of_address(big_endian(ip + 16, 4));
  const std::size_t header = 4 * (std::to_integer<std::size_t>(ip[0]) & 15U);
  if (std::to_integer<std::uint8_t>(ip[9]) != kTcp || bytes < header + 20) return packet;
  const std::byte* const tcp = ip + header;
  const std::size_t tcp_header = 4 * (std::to_integer<std::size_t>(tcp[12]) >> 4U);
  packet.urgent =
      bytes == header + tcp_header && std::to_integer<std::uint8_t>(tcp[13]) == kOnlyAck;
  return packet;
}

}  // namespace

class EmulatedNetwork::Carrier {
 public:
  Carrier(std::vector<int> ports, const NetworkShape& shape)
      : ports_(std::move(ports)),
        model_(static_cast<int>(ports_.size()), shape),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    check_made(epoll_, "epoll");
    check_made(stop_, "eventfd");
    check_made(timer_, "timerfd");
    watch(stop_, kStopKey);
    watch(timer_, kTimerKey);
    for (std::size_t i = 0; i < ports_.size(); ++i) watch(ports_[i], i);
  }
  ~Carrier() {
    for (const int port : ports_) ::close(port);
    for (const int fd : {epoll_, stop_, timer_}) ::close(fd);
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  void run();
  void stop() const {
    const std::uint64_t one = 1;
    TROUPE_CHECK(::write(stop_, &one, sizeof(one)) == sizeof(one));
  }
  [[nodiscard]] Counts counts() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
  }

 private:
  void watch(int fd, std::uint64_t key) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    check_made(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
  [[nodiscard]] static NetworkModel::Time now() {
    return std::chrono::duration_cast<NetworkModel::Time>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  void set_timer() const;
  void read_port(int port);
  void deliver(const Packet& packet, NetworkModel::Time due);

  std::vector<int> ports_;
  NetworkModel model_;
  int epoll_;
  int stop_;
  int timer_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> on_the_way_;  // with their headers
  std::array<std::byte, kMaxPacketBytes> buffer_{};
  std::uint64_t next_id_ = 0;
  mutable std::mutex mutex_;
  Counts counts_;
};

void EmulatedNetwork::Carrier::run() {
  std::array<epoll_event, 128> events{};
  for (;;) {
    model_.advance(now(),
                   [this](const Packet& packet, NetworkModel::Time due) { deliver(packet, due); });
    set_timer();
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
      if (key == kStopKey) return;
      if (key != kTimerKey) read_port(static_cast<int>(key));
    }
  }
}

// At the next event, by the clock; setting it also forgets that it has fired.
void EmulatedNetwork::Carrier::set_timer() const {
  const auto next = model_.next();
  itimerspec when{};
  if (next) {
    const auto nanoseconds = std::max<std::int64_t>(next->count(), 1);
    when.it_value.tv_sec = nanoseconds / 1'000'000'000;
    when.it_value.tv_nsec = nanoseconds % 1'000'000'000;
  }
  ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void EmulatedNetwork::Carrier::read_port(int port) {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t count =
        ::read(ports_[static_cast<std::size_t>(port)], buffer_.data(), buffer_.size());
    if (count <= static_cast<ssize_t>(kPacketHeaderBytes)) return;
    const auto bytes = static_cast<std::size_t>(count);
    Packet packet = inspect(buffer_.data() + kPacketHeaderBytes, bytes - kPacketHeaderBytes, port);
    if (packet.to < 0 || packet.to >= static_cast<int>(ports_.size())) continue;
    packet.id = next_id_++;
    on_the_way_.emplace(packet.id,
                        std::vector<std::byte>(buffer_.begin(), buffer_.begin() + count));
    model_.send(now(), packet);
  }
}

void EmulatedNetwork::Carrier::deliver(const Packet& packet, NetworkModel::Time due) {
  const auto found = on_the_way_.find(packet.id);
  const std::vector<std::byte>& bytes = found->second;
  const ssize_t taken =
      ::write(ports_[static_cast<std::size_t>(packet.to)], bytes.data(), bytes.size());
  const double late = std::chrono::duration<double>(now() - due).count();
  on_the_way_.erase(found);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.packets;
  counts_.bytes += packet.bytes;
  counts_.lost += taken < 0 ? 1 : 0;
  counts_.latest_by = std::max(counts_.latest_by, late);
  counts_.late_seconds += late;
}

EmulatedNetwork::EmulatedNetwork(std::vector<int> ports, const NetworkShape& shape)
    : carrier_(std::make_unique<Carrier>(std::move(ports), shape)), thread_([this] {
        ::prctl(PR_SET_TIMERSLACK, 1UL);
        sched_param priority{};
        priority.sched_priority = 1;
        ::pthread_setschedparam(::pthread_self(), SCHED_RR, &priority);  // where it may
        carrier_->run();
      }) {}

EmulatedNetwork::~EmulatedNetwork() {
  carrier_->stop();
  thread_.join();
}

EmulatedNetwork::Counts EmulatedNetwork::counts() const { return carrier_->counts(); }

}  // namespace troupe::bench
