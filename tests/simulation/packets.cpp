#include "tests/simulation/packets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/core/text.h"

namespace troupe::simulation {

Time Packets::arrival_after(Time& last) const {
  World& world = World::the();
  last = std::max(last, world.now() + world.random.between(kMicrosecond, most_delay));
  return last;
}

long Packets::send(Span<const std::byte> packet) {
  if (has_ended_) return -EPIPE;
  std::string copy(reinterpret_cast<const char*>(packet.data()), packet.size());
  World::the().at(arrival_after(last_out_), [self = shared_from_this(), copy = std::move(copy)] {
    World::the().note(text(self->process_, " says ", copy));
    self->on_packet_(copy);
  });
  return static_cast<long>(packet.size());
}

void Packets::tell(std::string packet) {
  World::the().at(arrival_after(last_in_), [self = shared_from_this(), packet = std::move(packet)] {
    if (self->has_ended_) return;
    World::the().note(text(self->process_, " is told ", packet));
    self->in_.push_back(packet);
    self->changed();
  });
}

long Packets::receive(Span<std::byte> into) {
  if (has_ended_) return 0;
  if (in_.empty()) return -EAGAIN;
  const std::size_t count = std::min(into.size(), in_.front().size());
  std::memcpy(into.data(), in_.front().data(), count);
  in_.pop_front();
  return static_cast<long>(count);
}

void Packets::shut_down() {
  has_ended_ = true;
  changed();
}

}  // namespace troupe::simulation
