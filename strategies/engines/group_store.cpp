#include "strategies/engines/group_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>

#include "core/clock.h"
#include "core/error.h"

namespace troupe::detail {
namespace {

// A key or value as a length in 8 bytes, little endian, and its bytes.
void put(std::vector<std::byte>& into, const void* data, std::size_t size) {
  for (int i = 0; i < 8; ++i)
    into.push_back(static_cast<std::byte>(std::uint64_t{size} >> (8 * i)));
  const auto* const bytes = static_cast<const std::byte*>(data);
  into.insert(into.end(), bytes, bytes + size);
}

/// Takes one off the front.  Throws: InternalError where the bytes end before it does.
Span<const std::byte> take(Span<const std::byte>& from) {
  constexpr std::size_t kLengthBytes = 8;
  std::uint64_t size = 0;
  const bool has_length = from.size() >= kLengthBytes;
  for (std::size_t i = 0; has_length && i < kLengthBytes; ++i) {
    size |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  }
  if (!has_length || size > from.size() - kLengthBytes) {
    throw InternalError("another worker's keys end too early.", "please report this.");
  }
  const Span<const std::byte> taken = from.subspan(kLengthBytes, size);
  from = from.subspan(kLengthBytes + size, from.size() - kLengthBytes - size);
  return taken;
}

}  // namespace

void GroupStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[key] = value;
    fresh_[key] = value;
  }
  const bool here = std::this_thread::get_id() == owner_ && group_ != nullptr;
  if (here) exchange();
}

std::vector<std::uint8_t> GroupStore::get(const std::string& key) {
  wait({key}, timeout_);
  const std::lock_guard<std::mutex> lock(mutex_);
  return values_.at(key);
}

void GroupStore::wait(const std::vector<std::string>& keys,
                      const std::chrono::milliseconds& timeout) {
  const Deadline deadline = Deadline::in(timeout);
  while (!check(keys)) {
    const bool here = std::this_thread::get_id() == owner_ && group_ != nullptr;
    TORCH_CHECK(here && !deadline.expired(), "no worker has set the key ", keys.front());
    exchange();
  }
}

bool GroupStore::check(const std::vector<std::string>& keys) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return values_.count(key) != 0; });
}

std::int64_t GroupStore::getNumKeys() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<std::int64_t>(values_.size());
}

std::int64_t GroupStore::add(const std::string& key, std::int64_t /*value*/) {
  TORCH_CHECK(false, "the group's store has no counters (key ", key, ")");
}

bool GroupStore::deleteKey(const std::string& key) {
  TORCH_CHECK(false, "the group's store keeps its keys (key ", key, ")");
}

c10::intrusive_ptr<c10d::Store> GroupStore::clone() {
  c10::raw::intrusive_ptr::incref(this);
  return c10::intrusive_ptr<c10d::Store>::reclaim(this);
}

void GroupStore::leave_group() { group_ = nullptr; }

void GroupStore::exchange() {
  std::vector<std::byte> mine;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, value] : fresh_) {
      put(mine, key.data(), key.size());
      put(mine, value.data(), value.size());
    }
    fresh_.clear();
  }
  const auto all = group_->all_gather(Span<const std::byte>(mine), Deadline::in(timeout_));
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& theirs : all) {
    for (Span<const std::byte> left(theirs); !left.empty();) {
      const auto key = take(left);
      const auto value = take(left);
      const auto* const data = reinterpret_cast<const std::uint8_t*>(value.data());
      values_[{reinterpret_cast<const char*>(key.data()), key.size()}] = {data,
                                                                          data + value.size()};
    }
  }
}

}  // namespace troupe::detail
