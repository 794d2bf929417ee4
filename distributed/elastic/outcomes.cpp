#include "troupe/distributed/elastic/outcomes.h"

#include <cstring>

#include "troupe/core/check.h"

namespace troupe {
namespace {

/// What every worker tells the others where a round begins.
std::vector<std::byte> encode(std::uint64_t completed, bool holds,
                              const std::vector<std::byte>& outcome) {
  std::vector<std::byte> bytes(sizeof completed + 1);
  std::memcpy(bytes.data(), &completed, sizeof completed);
  bytes[sizeof completed] = static_cast<std::byte>(holds ? 1 : 0);
  bytes.insert(bytes.end(), outcome.begin(), outcome.end());
  return bytes;
}

struct Told {
  std::uint64_t completed = 0;
  bool holds = false;
  Span<const std::byte> outcome;
};

Told decode(const std::vector<std::byte>& bytes) {
  Told told;
  constexpr std::size_t kHead = sizeof told.completed + 1;
  TROUPE_CHECK(bytes.size() >= kHead);
  std::memcpy(&told.completed, bytes.data(), sizeof told.completed);
  told.holds = bytes[sizeof told.completed] != std::byte{0};
  told.outcome = Span<const std::byte>(bytes.data() + kHead, bytes.size() - kHead);
  return told;
}

}  // namespace

void Outcomes::add(Span<const std::byte> outcome) {
  ++completed_;
  last_.assign(outcome.begin(), outcome.end());
}

void Outcomes::exchange(WorkerGroup& group, bool holds, const Deadline& deadline) {
  const auto all = group.all_gather(encode(completed_, holds, last_), deadline);
  for (const std::vector<std::byte>& bytes : all) {
    const Told told = decode(bytes);
    if (!told.holds || told.completed <= completed_) continue;
    TROUPE_CHECK(!holds || told.completed == completed_ + 1);
    completed_ = told.completed;
    last_.assign(told.outcome.begin(), told.outcome.end());
  }
}

}  // namespace troupe
