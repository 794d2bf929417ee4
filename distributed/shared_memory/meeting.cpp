#include "troupe/distributed/shared_memory/meeting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/core/checksum.h"
#include "troupe/core/error.h"
#include "troupe/core/spin.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

// A sleeper looks at the group's failure and the deadline this often; a peer that comes wakes it at
// once.
constexpr std::chrono::milliseconds kSleepSlice{50};
// Without a core for each worker the one that is waited for may need this one: it is given away so
// often before the wait becomes a sleep. Source: docs/performance.md.
constexpr int kYields = 20;
constexpr int kFirstLooks = 32;  // about as long as a line takes from another core's cache

using Word = std::atomic<std::uint32_t>;  // as ranks post it

// Stamps and steps wrap around; no two that are compared are far apart.
bool reached(const Word& word, std::uint32_t target) {
  return static_cast<std::int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
}

// Not FUTEX_PRIVATE: the word is another process's, too.
void futex_wait(Word& word, std::uint32_t seen, const timespec& limit) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void futex_wake(Word& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool same(const EntryWords& a, const EntryWords& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.label == b.label &&
         a.sequence == b.sequence && a.total_bytes == b.total_bytes &&
         a.links_digest == b.links_digest;
}

FrameHeader header_of(const EntryWords& words) {
  FrameHeader header;
  header.operation = static_cast<Operation>(words.operation);
  header.dtype = static_cast<DType>(words.dtype);
  header.sequence = words.sequence;
  header.total_bytes = words.total_bytes;
  return header;
}

bool spin(const Word& word, std::uint32_t target, std::chrono::microseconds limit) {
  if (limit.count() == 0) {
    for (int i = 0; i < kYields; ++i) {
      if (reached(word, target)) return true;
      std::this_thread::yield();
    }
    return reached(word, target);
  }
  return spin_until([&] { return reached(word, target); }, limit);
}

/// Sleeps until `word` in the block of `peer` comes to `target`, at most `limit` or a short while.
void sleep_on(RankBlock& peer, Word& word, std::uint32_t target, std::chrono::nanoseconds limit) {
  const timespec slice = {
      0, static_cast<long>(std::min<std::chrono::nanoseconds>(kSleepSlice, limit).count())};
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = word.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) futex_wait(word, seen, slice);
  peer.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

void Meeting::post(Word& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  posted_ = &word;
}

// Either this rank sees the sleeper, or the sleeper, who looks once more, sees the word. The fence
// would wait for everything written before the word to leave this core; so it comes when that has
// happened anyway, after this rank's own wait.
void Meeting::wake_sleepers() {
  Word* const word = std::exchange(posted_, nullptr);
  if (word == nullptr) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (segment_.block(rank_).sleepers.load(std::memory_order_relaxed) != 0) futex_wake(*word);
}

Meeting::Meeting(CallEnvironment& environment, GroupSegment& segment)
    : environment_(environment), segment_(segment), rank_(environment.state.cluster.rank) {}

void Meeting::record(const FrameHeader& header) {
  const auto root_and_types = std::uint64_t{header.root} << 32U |
                              static_cast<std::uint64_t>(header.operation) << 8U |
                              static_cast<std::uint64_t>(header.dtype);
  const std::array<std::uint64_t, 4> words = {header.sequence, header.total_bytes, root_and_types,
                                              CollectiveLabel::of_this_thread()};
  links_digest_ = hash_of(as_bytes(Span<const std::uint64_t>(words.data(), words.size())),
                          /*seed=*/links_digest_);
  LinkRecord& mine = segment_.block(rank_).over_links;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  mine.total_bytes.store(header.total_bytes, kRelaxed);
  mine.operation.store(static_cast<std::uint32_t>(header.operation), kRelaxed);
  mine.dtype.store(static_cast<std::uint32_t>(header.dtype), kRelaxed);
  mine.root.store(header.root, kRelaxed);
  mine.sequence.store(header.sequence, std::memory_order_release);
}

void Meeting::begin(Operation operation, DType dtype, std::uint64_t total_bytes,
                    const Deadline& deadline) {
  deadline_ = &deadline;
  words_.operation = static_cast<std::uint8_t>(operation);
  words_.dtype = static_cast<std::uint8_t>(dtype);
  words_.label = CollectiveLabel::of_this_thread();
  words_.sequence = environment_.state.entered.fetch_add(1, std::memory_order_relaxed) + 1;
  words_.total_bytes = total_bytes;
  words_.links_digest = links_digest_;
  if (environment_.state.failed()) environment_.state.raise_if_failed(where());
}

void Meeting::enter(std::uint32_t buffer, std::uint64_t offset, Span<const std::byte> small) {
  ++stamp_;
  Entry& mine = segment_.block(rank_).entries[stamp_ & 1U];
  mine.buffer = buffer;
  mine.offset = offset;
  mine.words = words_;
  if (!small.empty()) {
    const bool beside = small.size() > sizeof(mine.values);
    std::byte* const into = beside ? segment_.small_slot(rank_, stamp_ & 1U) : mine.values;
    std::memcpy(into, small.data(), small.size());
  }
  post(mine.stamp, stamp_);
}

void Meeting::await_entries() {
  for (int peer = 0; peer < segment_.world_size(); ++peer) {
    if (peer == rank_) continue;
    Entry& theirs = segment_.block(peer).entries[stamp_ & 1U];
    await(peer, theirs.stamp, stamp_, environment_.arrival_spin);
    compare(peer);
  }
  wake_sleepers();
}

void Meeting::await_steps() {
  for (int peer = 0; peer < segment_.world_size(); ++peer) {
    if (peer != rank_) await(peer, segment_.block(peer).steps, steps_, environment_.spin);
  }
  wake_sleepers();
}

void Meeting::compare(int peer) {
  const EntryWords theirs = entry(peer).words;
  if (same(theirs, words_)) return;
  const bool known = theirs.operation >= static_cast<std::uint8_t>(Operation::all_reduce) &&
                     theirs.operation <= static_cast<std::uint8_t>(kLastOperation) &&
                     theirs.dtype <= static_cast<std::uint8_t>(DType::bfloat16);
  if (!known) {
    settle_broken(environment_, {peer, "its entry in shared memory was refused"}, where());
  }
  EntryWords here = words_;
  here.links_digest = theirs.links_digest;
  // They parted before, in a collective over links where nobody waited for the other.
  if (same(theirs, here)) desynchronise(peer, recorded_header(rank_), recorded_header(peer));
  desynchronise(peer, header_of(words_), header_of(theirs));
}

void Meeting::await(int peer, Word& word, std::uint32_t target,
                    std::chrono::microseconds spin_limit) {
  for (int i = 0; i < kFirstLooks; ++i) {
    if (reached(word, target)) return;
    pause_core();
  }
  wake_sleepers();
  while (!reached(word, target) && !spin(word, target, spin_limit)) {
    check(peer, word, target);
    sleep_on(segment_.block(peer), word, target, deadline_->remaining());
  }
}

void Meeting::check(int peer, const Word& word, std::uint32_t target) {
  GroupState& state = environment_.state;
  if (state.failed()) state.raise_if_failed(where());
  // A peer that is in a later collective over links has left this one out. It may have been here
  // and gone on: its word is looked at again after its record.
  const bool beyond =
      segment_.block(peer).over_links.sequence.load(std::memory_order_acquire) >= words_.sequence;
  if (beyond && !reached(word, target))
    desynchronise(peer, header_of(words_), recorded_header(peer));
  if (deadline_->expired()) time_out(peer);
}

void Meeting::time_out(int waited_for) {
  const Cluster& cluster = environment_.state.cluster;
  std::vector<std::string> late;
  for (int peer = 0; peer < segment_.world_size(); ++peer) {
    if (peer == rank_ || reached(entry(peer).stamp, stamp_)) continue;
    late.push_back(cluster.member(peer).task);
  }
  if (late.empty()) late = {cluster.member(waited_for).task};
  settle(environment_,
         timed_out(cluster, header_of(words_), *deadline_, waited_for,
                   "still waits for " + join(late)),
         where());
}

void Meeting::desynchronise(int peer, const FrameHeader& mine, const FrameHeader& theirs) {
  settle(environment_, desynchronised(environment_.state.cluster, mine, peer, theirs), where());
}

// Words of another collective may be among them while the peer goes on; they only make a message.
FrameHeader Meeting::recorded_header(int peer) const {
  const LinkRecord& record = segment_.block(peer).over_links;
  FrameHeader header;
  header.operation = static_cast<Operation>(record.operation.load(std::memory_order_relaxed));
  header.dtype = static_cast<DType>(record.dtype.load(std::memory_order_relaxed));
  header.sequence = record.sequence.load(std::memory_order_relaxed);
  header.total_bytes = record.total_bytes.load(std::memory_order_relaxed);
  header.root = record.root.load(std::memory_order_relaxed);
  return header;
}

std::string Meeting::where() const {
  return place_of_failure(environment_.state.cluster, header_of(words_));
}

}  // namespace troupe
