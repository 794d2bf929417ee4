#include "troupe/strategies/engines/group_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe::detail {
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

void GroupStore::exchange() {
  std::vector<std::uint8_t> mine;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    mine = nlohmann::json::to_cbor(std::exchange(fresh_, {}));
  }
  const auto all =
      group_->all_gather(as_bytes(Span<const std::uint8_t>(mine)), Deadline::in(timeout_));
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& theirs : all) {
    const auto* const keys = reinterpret_cast<const std::uint8_t*>(theirs.data());
    try {
      Values told = nlohmann::json::from_cbor(keys, keys + theirs.size()).get<Values>();
      told.merge(values_);  // what is told again wins
      values_ = std::move(told);
    } catch (const nlohmann::json::exception& error) {
      throw InternalError(text("another worker's keys are no CBOR (", error.what(), ")."),
                          "please report this.");
    }
  }
}

}  // namespace troupe::detail
