#include "distributed/shared_memory/board.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/spin.h"
#include "core/text.h"
#include "distributed/collectives/collective_label.h"
#include "distributed/membership/verdict.h"

namespace troupe {
namespace {

// A sleeper looks at the group's failure and the deadline this often; a peer that comes wakes it at
// once.
constexpr std::chrono::milliseconds kSleepSlice{50};
// Without a core for each worker the one that is waited for may need this one: it is given away so
// often before the wait becomes a sleep. Source: docs/performance.md.
constexpr int kYields = 20;
constexpr int kFirstLooks = 32;  // about as long as a line takes from another core's cache

// Stamps and steps wrap around; no two that are compared are far apart.
bool reached(const std::atomic<std::uint32_t>& word, std::uint32_t target) {
  return static_cast<std::int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
}

// Not FUTEX_PRIVATE: the word is another process's, too.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, const timespec& limit) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t mix(std::uint64_t digest, std::uint64_t word) {
  digest = (digest ^ word) * 0x9E3779B97F4A7C15U;  // a bijection of each, so no word is lost
  return digest ^ (digest >> 32U);
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

}  // namespace

void Board::lay_out(SharedSegment& segment, int world_size) {
  const BoardLayout layout(world_size);
  std::byte* const memory = segment.memory().data();
  new (memory) BoardHeader{kBoardMagic, kBoardVersion, static_cast<std::uint32_t>(world_size),
                           static_cast<std::uint32_t>(layout.part_bytes)};
  for (std::size_t rank = 0; rank < layout.world_size; ++rank) {
    new (memory + layout.block(rank)) RankBlock{};
  }
}

Board::Board(CallEnvironment& environment, std::shared_ptr<SharedSegment> segment)
    : environment_(environment),
      segment_(std::move(segment)),
      layout_(environment.state.cluster.world_size()),
      rank_(environment.state.cluster.rank),
      world_size_(environment.state.cluster.world_size()),
      operands_(layout_.world_size) {
  BoardHeader header{};
  std::memcpy(&header, segment_->memory().data(), sizeof(header));
  if (segment_->memory().size() != layout_.bytes() || header.magic != kBoardMagic ||
      header.version != kBoardVersion || header.world_size != layout_.world_size ||
      header.part_bytes != layout_.part_bytes) {
    throw DataError("the shared memory is laid out in another way.",
                    "run the same build of Troupe on every worker.");
  }
  for (std::size_t rank = 0; rank < layout_.world_size; ++rank) {
    std::byte* const at = segment_->memory().data() + layout_.block(rank);
    blocks_.push_back(std::launder(reinterpret_cast<RankBlock*>(at)));
  }
}

void Board::note(const FrameHeader& header) {
  const auto root_and_types = std::uint64_t{header.root} << 32U |
                              static_cast<std::uint64_t>(header.operation) << 8U |
                              static_cast<std::uint64_t>(header.dtype);
  for (const std::uint64_t word : {header.sequence, header.total_bytes, root_and_types,
                                   std::uint64_t{CollectiveLabel::of_this_thread()}}) {
    links_digest_ = mix(links_digest_, word);
  }
  LinkNote& mine = block(rank_).note;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  mine.total_bytes.store(header.total_bytes, kRelaxed);
  mine.operation.store(static_cast<std::uint32_t>(header.operation), kRelaxed);
  mine.dtype.store(static_cast<std::uint32_t>(header.dtype), kRelaxed);
  mine.root.store(header.root, kRelaxed);
  mine.sequence.store(header.sequence, std::memory_order_release);
}

void Board::meet(Operation operation, DType dtype, std::uint64_t total_bytes,
                 const Deadline& deadline) {
  begin(operation, dtype, total_bytes, deadline);
  enter({}, {});
  await_entries();
}

void Board::begin(Operation operation, DType dtype, std::uint64_t total_bytes,
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

void Board::enter(const Place& place, Span<const std::byte> small) {
  ++stamp_;
  Entry& mine = entry(rank_);
  mine.buffer = place.buffer;
  mine.offset = place.offset;
  mine.words = words_;
  if (!small.empty()) {
    const bool beside = small.size() > sizeof(mine.values);
    std::memcpy(beside ? small_slot(rank_) : mine.values, small.data(), small.size());
  }
  written_bytes_ += sizeof(Entry) + small.size();
  post(mine.stamp, stamp_);
}

void Board::await_entries() {
  for_peers([this](int peer) {
    await(peer, entry(peer).stamp, stamp_, environment_.arrival_spin);
    compare(peer);
  });
  wake_sleepers();
}

void Board::compare(int peer) {
  const EntryWords theirs = entry(peer).words;
  if (same(theirs, words_)) return;
  const bool known = theirs.operation >= static_cast<std::uint8_t>(Operation::all_reduce) &&
                     theirs.operation <= static_cast<std::uint8_t>(Operation::close) &&
                     theirs.dtype <= static_cast<std::uint8_t>(DType::bfloat16);
  if (!known) {
    settle_broken(environment_, {peer, "its entry in shared memory was refused"}, where());
  }
  const bool alike_here = theirs.operation == words_.operation && theirs.dtype == words_.dtype &&
                          theirs.label == words_.label && theirs.sequence == words_.sequence &&
                          theirs.total_bytes == words_.total_bytes;
  // They parted before, in a collective over links where nobody waited for the other.
  if (alike_here) desynchronise(peer, noted_header(rank_), noted_header(peer));
  desynchronise(peer, own_header(), header_of(theirs));
}

void Board::post(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  posted_ = &word;
}

// Either this rank sees the sleeper, or the sleeper, who looks once more, sees the word. The fence
// would wait for everything written before the word to leave this core; so it comes when that has
// happened anyway, after this rank's own wait.
void Board::wake_sleepers() {
  std::atomic<std::uint32_t>* const word = std::exchange(posted_, nullptr);
  if (word == nullptr) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (block(rank_).sleepers.load(std::memory_order_relaxed) != 0) futex_wake(*word);
}

void Board::await(int peer, std::atomic<std::uint32_t>& word, std::uint32_t target,
                  std::chrono::microseconds limit) {
  for (int i = 0; i < kFirstLooks; ++i) {
    if (reached(word, target)) return;
    pause_core();
  }
  wake_sleepers();
  while (!reached(word, target) && !spin(word, target, limit)) {
    check(peer, word, target);
    sleep(block(peer), word, target);
  }
}

bool Board::spin(const std::atomic<std::uint32_t>& word, std::uint32_t target,
                 std::chrono::microseconds limit) {
  if (limit.count() == 0) {
    for (int i = 0; i < kYields; ++i) {
      if (reached(word, target)) return true;
      std::this_thread::yield();
    }
    return reached(word, target);
  }
  return spin_until([&] { return reached(word, target); }, limit);
}

void Board::sleep(RankBlock& peer, std::atomic<std::uint32_t>& word, std::uint32_t target) {
  const std::chrono::nanoseconds left =
      std::min<std::chrono::nanoseconds>(kSleepSlice, deadline_->remaining());
  const timespec limit = {0, static_cast<long>(left.count())};
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = word.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) futex_wait(word, seen, limit);
  peer.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Board::check(int peer, const std::atomic<std::uint32_t>& word, std::uint32_t target) {
  GroupState& state = environment_.state;
  if (state.failed()) state.raise_if_failed(where());
  // A peer that is in a later collective over links has left this one out. It may have been here
  // and gone on: its word is looked at again after its note.
  const bool beyond = block(peer).note.sequence.load(std::memory_order_acquire) >= words_.sequence;
  if (beyond && !reached(word, target)) desynchronise(peer, own_header(), noted_header(peer));
  if (deadline_->expired()) time_out(peer);
}

void Board::time_out(int waited_for) {
  const Cluster& cluster = environment_.state.cluster;
  std::string late;
  for_peers([&](int peer) {
    if (reached(entry(peer).stamp, stamp_)) return;
    late += (late.empty() ? "" : ", ") + cluster.members[static_cast<std::size_t>(peer)].task;
  });
  if (late.empty()) late = cluster.members[static_cast<std::size_t>(waited_for)].task;
  settle(environment_,
         {FailureKind::timeout, waited_for,
          text(describe_collective(own_header()), ": after ", deadline_->elapsed_seconds(), " s ",
               cluster.task(), " still waits for ", late, " (limit ", deadline_->limit_seconds(),
               " s)."),
          "look for what holds that worker up; raise --timeout if it is only slow.", kExitPeerLost},
         where());
}

void Board::desynchronise(int peer, const FrameHeader& mine, const FrameHeader& theirs) {
  settle(environment_, desynchronised(environment_.state.cluster, mine, peer, theirs), where());
}

FrameHeader Board::own_header() const { return header_of(words_); }

// Words of another collective may be among them while the peer goes on; they only make a message.
FrameHeader Board::noted_header(int peer) const {
  const LinkNote& note = block(peer).note;
  FrameHeader header;
  header.operation = static_cast<Operation>(note.operation.load(std::memory_order_relaxed));
  header.dtype = static_cast<DType>(note.dtype.load(std::memory_order_relaxed));
  header.sequence = note.sequence.load(std::memory_order_relaxed);
  header.total_bytes = note.total_bytes.load(std::memory_order_relaxed);
  header.root = note.root.load(std::memory_order_relaxed);
  return header;
}

std::string Board::where() const {
  return place_of_failure(environment_.state.cluster, own_header());
}

std::byte* Board::small_slot(int rank) const {
  return segment_->memory().data() +
         layout_.small_slot(static_cast<std::size_t>(rank), stamp_ & 1U);
}

std::byte* Board::part_slot(int rank, std::size_t slot) const {
  return segment_->memory().data() +
         layout_.part_slot(static_cast<std::size_t>(rank), slot % kPartSlots);
}

}  // namespace troupe
