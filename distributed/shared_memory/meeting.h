// Meeting: how ranks that share memory enter a collective together, and wait for one another in it.
//
// A collective begins with an entry of each rank, and no rank continues before all entries have
// come and are alike. So no rank is ever more than one collective ahead, and what has two places by
// turns is never overwritten while another rank reads it. Collectives over links are recorded in
// the segment, so that a rank there and a rank here see that they are not in the same. Nothing is
// waited for without the group's deadline, failure and desync checks.
//
// Thread rule: the thread that calls collectives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/core/span.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/shared_memory/group_segment.h"

namespace troupe {

class Meeting {
 public:
  /// Both outlive this object.
  Meeting(CallEnvironment& environment, GroupSegment& segment);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Records that this worker enters the collective over links that `header` describes.
  void record(const FrameHeader& header);

  /// What this rank enters is `operation`, of all ranks' `total_bytes`.
  void begin(Operation operation, DType dtype, std::uint64_t total_bytes, const Deadline& deadline);
  /// Posts this rank's entry: where its values lie (0: in no buffer), or the values themselves.
  void enter(std::uint32_t buffer, std::uint64_t offset, Span<const std::byte> small);
  /// Returns when every rank has entered the same: a barrier.  Throws: as a collective.
  void await_entries();
  [[nodiscard]] const Entry& entry(int rank) const {
    return segment_.block(rank).entries[stamp_ & 1U];
  }
  /// The values that `rank` entered with, `bytes` long.
  [[nodiscard]] const std::byte* small_values(int rank, std::size_t bytes) const {
    return bytes > sizeof(Entry::values) ? segment_.small_slot(rank, stamp_ & 1U)
                                         : entry(rank).values;
  }

  /// A step of a long sum: posts that this rank has made one more.
  void finish_step() { post(segment_.block(rank_).steps, ++steps_); }
  /// Returns when every rank has made as many.
  void await_steps();

 private:
  using Word = std::atomic<std::uint32_t>;

  void post(Word& word, std::uint32_t value);
  /// Wakes whoever sleeps on the word posted last; to be called after this rank's own wait.
  void wake_sleepers();
  void compare(int peer);
  void await(int peer, Word& word, std::uint32_t target, std::chrono::microseconds spin_limit);
  void check(int peer, const Word& word, std::uint32_t target);
  [[noreturn]] void time_out(int peer);
  [[noreturn]] void desynchronise(int peer, const FrameHeader& mine, const FrameHeader& theirs);
  [[nodiscard]] FrameHeader recorded_header(int peer) const;
  [[nodiscard]] std::string where() const;

  CallEnvironment& environment_;
  GroupSegment& segment_;
  const int rank_;
  Word* posted_ = nullptr;  // whose sleepers are still to be woken
  std::uint64_t links_digest_ = 0;
  // The collective in progress.
  EntryWords words_;
  const Deadline* deadline_ = nullptr;
  std::uint32_t stamp_ = 0;
  std::uint32_t steps_ = 0;  // that this rank has posted
};

}  // namespace troupe
