#include "tests/simulation/network.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/core/checksum.h"
#include "troupe/core/text.h"

namespace troupe::simulation {
namespace {

Network* g_network = nullptr;

constexpr Time kLocalDelay = 5 * kMicrosecond;
constexpr Time kConnectAgain = kSecond;  // RFC 6298: the first retransmission of a SYN
constexpr Time kLongestRetransmission = 400 * kMillisecond;

sockaddr_in& inet(sockaddr_storage& bytes) { return reinterpret_cast<sockaddr_in&>(bytes); }
const sockaddr_in& inet(const sockaddr_storage& bytes) {
  return reinterpret_cast<const sockaddr_in&>(bytes);
}

}  // namespace

Address Address::of(const sockaddr* from, socklen_t size) {
  Address made;
  made.size = std::min<socklen_t>(size, sizeof(made.bytes));
  std::memcpy(&made.bytes, from, made.size);
  return made;
}

Address Address::tcp(const std::string& host, std::uint16_t port) {
  Address made;
  made.size = sizeof(sockaddr_in);
  inet(made.bytes).sin_family = AF_INET;
  inet(made.bytes).sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &inet(made.bytes).sin_addr);
  return made;
}

void Address::give(sockaddr* into, socklen_t* room) const {
  if (into == nullptr || room == nullptr) return;
  std::memcpy(into, &bytes, std::min(*room, size));
  *room = size;
}

std::string Address::host() const {
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &inet(bytes).sin_addr, text, sizeof(text));
  return text;
}

std::uint16_t Address::port() const { return ntohs(inet(bytes).sin_port); }

std::string Address::name() const {
  constexpr std::size_t kBefore = offsetof(sockaddr_un, sun_path);
  const auto& local = reinterpret_cast<const sockaddr_un&>(bytes);
  return size <= kBefore ? "" : std::string(local.sun_path, size - kBefore);
}

std::uint32_t Stream::ready() const {
  std::uint32_t events = 0;
  if (error_ != 0) events |= EPOLLERR | EPOLLIN | EPOLLOUT;
  if (state_ != State::connected) return events;
  if (taken_ < in_.size() || has_ended_) events |= EPOLLIN;
  if (has_ended_) events |= EPOLLRDHUP;
  if (room() > 0 || is_broken_) events |= EPOLLOUT;
  if (is_broken_) events |= EPOLLHUP;
  return events;
}

std::size_t Stream::room() const {
  const std::size_t all = Network::the().buffer_bytes;
  return outstanding_ < all ? all - outstanding_ : 0;
}

void Stream::on_close() {
  for (const auto& [place, file] : files_) ::close(file);
  if (state_ != State::connected || is_broken_) return;
  const bool unread = taken_ < in_.size();
  transmit(unread || !lingers ? Segment::Kind::reset : Segment::Kind::end, "", -1);
}

long Stream::connect(const Address& to) {
  if (state_ != State::fresh) return state_ == State::connected ? -EISCONN : -EALREADY;
  remote = to;
  Network& network = Network::the();
  if (family == AF_UNIX) {
    const auto listener = network.listener_at(to, host);
    if (!listener) return -ECONNREFUSED;
    peer_ = std::make_shared<Stream>(family, host);
    peer_->peer_ = shared_from_this();
    peer_->local = to;
    peer_->state_ = state_ = State::connected;
    network.add(shared_from_this());
    network.add(peer_);
    listener->come(peer_);
    return 0;
  }
  state_ = State::connecting;
  if (local.size == 0) local = Address::tcp(host, network.free_port());
  knock();
  return -EINPROGRESS;
}

// SYN, its answer, and SYN again where none came.
void Stream::knock() {
  World& world = World::the();
  Network& network = Network::the();
  const std::string there = remote.host();
  const auto self = shared_from_this();
  const auto is_waiting = [self] { return self->is_open && self->state_ == State::connecting; };
  world.after(kConnectAgain, [self, is_waiting] {
    if (is_waiting()) self->knock();
  });
  world.after(network.delay(host, there), [self, there, is_waiting] {
    Network& between = Network::the();
    if (!is_waiting() || self->peer_ || between.is_cut(self->host, there)) return;
    const auto listener = between.listener_at(self->remote, there);
    if (listener) {
      self->peer_ = std::make_shared<Stream>(self->family, there);
      self->peer_->peer_ = self;
      self->peer_->local = self->remote;
      self->peer_->remote = self->local;
      self->peer_->state_ = State::connected;
      between.add(self);
      between.add(self->peer_);
    }
    World::the().after(between.delay(there, self->host), [self, there, is_waiting, listener] {
      if (Network::the().is_cut(there, self->host)) {
        // A retransmitted answer to the next SYN does it.
        if (self->peer_) self->peer_->is_dark = true;
        self->peer_ = nullptr;
        return;
      }
      if (!is_waiting()) {
        if (self->peer_) self->peer_->reset();
        return;
      }
      if (!listener) {
        self->error_ = ECONNREFUSED;
        self->state_ = State::fresh;
      } else {
        self->state_ = State::connected;
        listener->come(self->peer_);
      }
      World::the().note(listener ? "connects" : "is refused");
      self->changed();
    });
  });
}

bool Stream::is_cut() const {
  return is_dark || peer_->is_dark || Network::the().is_cut(host, peer_->host);
}

long Stream::send(const std::vector<Span<const std::byte>>& parts, int file) {
  if (error_ != 0) return -take_error();
  if (state_ != State::connected) return -ENOTCONN;
  if (is_broken_) return -EPIPE;
  std::size_t left = room();
  std::string bytes;
  for (const Span<const std::byte>& part : parts) {
    const std::size_t count = std::min(left, part.size());
    bytes.append(reinterpret_cast<const char*>(part.data()), count);
    left -= count;
  }
  if (bytes.empty()) return -EAGAIN;
  const std::size_t count = bytes.size();
  outstanding_ += count;
  sent_bytes += count;
  World::the().note("sends", count, checksum_of(as_bytes(Span<const char>(bytes.data(), count))));
  transmit(Segment::Kind::bytes, std::move(bytes), file);
  if (Network::the().on_message) Network::the().on_message(*this);
  return static_cast<long>(count);
}

void Stream::transmit(Segment::Kind kind, std::string bytes, int file) {
  World& world = World::the();
  last_arrival_ = std::max(last_arrival_, world.now() + Network::the().delay(host, peer_->host));
  out_.push_back({kind, std::move(bytes), file, last_arrival_});
  world.at(last_arrival_, [self = shared_from_this()] { self->deliver(); });
}

void Stream::deliver() {
  while (!out_.empty() && out_.front().arrival <= World::the().now() && !is_cut()) {
    Segment segment = std::move(out_.front());
    out_.pop_front();
    peer_->arrive(std::move(segment));
  }
}

void Stream::retransmit() {
  if (out_.empty()) return;
  World& world = World::the();
  const Time late = world.random.between(0, kLongestRetransmission);
  world.after(late, [self = shared_from_this()] { self->deliver(); });
}

void Stream::arrive(Segment segment) {
  World& world = World::the();
  if (!is_open || is_broken_) {  // nobody is there any more
    if (segment.kind == Segment::Kind::bytes) transmit(Segment::Kind::reset, "", -1);
    if (segment.file >= 0) ::close(segment.file);
    return;
  }
  switch (segment.kind) {
    case Segment::Kind::reset:
      return reset();
    case Segment::Kind::end:
      has_ended_ = true;
      break;
    case Segment::Kind::bytes:
      if (segment.file >= 0) files_.emplace_back(come_bytes_, segment.file);
      // In pieces, as a reader finds them who looks while they come.
      if (segment.bytes.size() > 1 && segment.file < 0 && world.random.one_in(8)) {
        const std::size_t cut = 1 + world.random.below(segment.bytes.size() - 1);
        Segment rest = segment;
        rest.bytes.erase(0, cut);
        segment.bytes.resize(cut);
        rest.arrival = world.now() + world.random.between(0, 50 * kMicrosecond);
        peer_->last_arrival_ = std::max(peer_->last_arrival_, rest.arrival);
        peer_->out_.push_front(std::move(rest));
        world.at(peer_->out_.front().arrival, [from = peer_] { from->deliver(); });
      }
      if (family == AF_INET) Network::the().damage(*peer_, segment.bytes);
      come_bytes_ += segment.bytes.size();
      in_ += segment.bytes;
      break;
  }
  world.note("arrives", come_bytes_);
  changed();
}

void Stream::reset() {
  if (!is_open || is_broken_) return;
  World::the().note("reset");
  error_ = ECONNRESET;
  has_ended_ = is_broken_ = true;
  changed();
}

long Stream::receive(const std::vector<Span<std::byte>>& parts, int* file) {
  if (file != nullptr) *file = -1;
  if (taken_ == in_.size()) {
    if (error_ != 0) return -take_error();
    if (state_ != State::connected) return -ENOTCONN;
    return has_ended_ ? 0 : -EAGAIN;
  }
  std::size_t most = in_.size() - taken_;
  if (!files_.empty() && files_.front().first == read_bytes_) {
    const int came = files_.front().second;
    files_.pop_front();
    file != nullptr ? static_cast<void>(*file = came) : static_cast<void>(::close(came));
  }
  if (!files_.empty()) most = std::min<std::size_t>(most, files_.front().first - read_bytes_);
  std::size_t count = 0;
  for (const Span<std::byte>& part : parts) {
    const std::size_t here = std::min(part.size(), most - count);
    if (here > 0) std::memcpy(part.data(), in_.data() + taken_ + count, here);
    count += here;
  }
  taken_ += count;
  read_bytes_ += count;
  if (taken_ == in_.size()) {
    in_.clear();
    taken_ = 0;
  }
  peer_->outstanding_ -= std::min(peer_->outstanding_, count);
  if (peer_->is_open) peer_->changed();
  return static_cast<long>(count);
}

void Listener::on_close() {
  for (const auto& stream : backlog_) {
    stream->is_open = false;
    if (stream->peer()) stream->peer()->reset();
  }
}

void Listener::come(std::shared_ptr<Stream> stream) {
  if (!is_open) {
    stream->is_open = false;
    return stream->peer()->reset();
  }
  backlog_.push_back(std::move(stream));
  changed();
}

std::shared_ptr<Stream> Listener::take() {
  if (backlog_.empty()) return nullptr;
  const auto first = backlog_.front();
  backlog_.pop_front();
  return first;
}

Network::Network() { g_network = this; }
Network& Network::the() { return *g_network; }

void Network::cut(const std::string& from, const std::string& to) { cuts_.emplace(from, to); }

void Network::mend(const std::string& from, const std::string& to) {
  cuts_.erase({from, to});
  for (const auto& known : streams_) {
    const auto stream = known.lock();
    if (stream && stream->peer() && stream->host == from) stream->retransmit();
  }
}

void Network::mend_all() {
  const auto all = cuts_;
  for (const auto& [from, to] : all) mend(from, to);
}

void Network::darken(const std::string& host) { dark_.insert(host); }

bool Network::is_cut(const std::string& from, const std::string& to) const {
  return dark_.count(from) > 0 || dark_.count(to) > 0 || cuts_.count({from, to}) > 0;
}

Time Network::delay(const std::string& from, const std::string& to) {
  Random& random = World::the().random;
  if (from == to) return kLocalDelay + random.between(0, kLocalDelay);
  const Time spread = random.between(0, most_delay - least_delay);
  const auto detour = detours_.find({from, to});
  // Most are near the least; a few take much longer.
  return least_delay + (random.one_in(10) ? spread : spread / 8) +
         (detour == detours_.end() ? 0 : detour->second);
}

std::uint16_t Network::free_port() { return next_port_++; }

std::string Network::key_of(const Address& address, const std::string& host) {
  if (address.bytes.ss_family == AF_UNIX) return host + " " + address.name();
  return text(address.host(), ":", address.port());
}

std::shared_ptr<Listener> Network::listener_at(const Address& address,
                                               const std::string& host) const {
  const auto found = listeners_.find(key_of(address, host));
  const auto listener = found == listeners_.end() ? nullptr : found->second.lock();
  return listener && listener->is_open ? listener : nullptr;
}

bool Network::listen(const std::shared_ptr<Listener>& listener, const std::string& host) {
  if (listener_at(listener->local, host)) return false;
  listeners_[key_of(listener->local, host)] = listener;
  return true;
}

std::vector<std::shared_ptr<Stream>> Network::connections() const {
  std::vector<std::shared_ptr<Stream>> found;
  for (const auto& known : streams_) {
    const auto stream = known.lock();
    const bool counts = stream && stream->is_open && stream->is_connected() && stream->peer() &&
                        stream->peer()->is_open && stream->owner && stream->peer()->owner;
    if (counts && stream->owner->number < stream->peer()->owner->number) found.push_back(stream);
  }
  return found;
}

void Network::damage(const Stream& from, std::string& bytes) {
  const Stream& to = *from.peer();
  if (!flip_ || from.owner == nullptr || to.owner == nullptr) return;
  if (flip_->bytes >= bytes.size()) {
    flip_->bytes -= bytes.size();
    return;
  }
  bytes[flip_->bytes] = static_cast<char>(bytes[flip_->bytes] ^ (1U << flip_->bit % 8));
  World::the().note(text("flips a bit between ", from.owner->name, " and ", to.owner->name));
  flipped_ = {from.owner, to.owner};
  flip_.reset();
}

}  // namespace troupe::simulation
