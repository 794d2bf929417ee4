// Board: collectives of workers that share memory.
//
// Every rank writes what it has to say into its own part of the board and waits for the others to
// have written theirs; nothing is ever waited for without the group's deadline, failure and desync
// checks. A collective begins with an entry of each rank, and nobody goes on before all entries
// have come and are alike. So no rank is ever more than one collective ahead, and what has two
// places by turns is never overwritten while somebody reads it. Collectives over links are noted on
// the board, so that a rank there and a rank here see that they are not in the same.
//
// Words: a *part* is what of long values goes through one slot at a time; a rank's *share* is what
// it sums of a part. Thread rule: the thread that calls collectives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/span.h"
#include "distributed/collectives/call.h"
#include "distributed/collectives/reduction.h"
#include "distributed/shared_memory/board_layout.h"
#include "distributed/shared_memory/shared_segment.h"

namespace troupe {

class Board {
 public:
  [[nodiscard]] static std::uint64_t bytes_for(int world_size) {
    return BoardLayout(world_size).bytes();
  }
  /// `segment` has bytes_for(world_size) bytes; both outlive this object.
  /// Throws: DataError when rank 0 has laid out something else.
  Board(CallEnvironment& environment, std::shared_ptr<SharedSegment> segment);
  /// To be called on rank 0 before the others are handed the segment.
  static void lay_out(SharedSegment& segment, int world_size);

  /// Notes that this worker enters the collective over links that `header` describes.
  void note(const FrameHeader& header);
  /// Returns when every rank has entered the same: a barrier.  Throws: as a collective.
  void meet(Operation operation, DType dtype, std::uint64_t total_bytes, const Deadline& deadline);
  /// As WorkerGroup::all_reduce.
  void all_reduce(Span<std::byte> values, const Reduction& sum, const Deadline& deadline);

  /// Memory of `stride` bytes per rank that all have mapped; returns this rank's. Every rank calls
  /// this with the same segments in the same order.
  [[nodiscard]] std::shared_ptr<std::byte> add_buffer(std::shared_ptr<SharedSegment> segment,
                                                      std::size_t stride);
  /// What this rank has written for others to read.
  [[nodiscard]] std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  struct Buffer {
    std::uint32_t id;
    std::weak_ptr<SharedSegment> segment;  // gone when nobody here uses it any more
    std::byte* memory;                     // rank 0's
    std::byte* mine;
    std::size_t stride;
  };
  struct Place {
    std::uint32_t buffer = 0;
    std::uint64_t offset = 0;
    std::byte* memory = nullptr;  // of rank 0's copy of the values
    std::size_t stride = 0;
  };
  enum class Agreement { in_place, on_board, mixed };

  void begin(Operation operation, DType dtype, std::uint64_t total_bytes, const Deadline& deadline);
  void enter(const Place& place, Span<const std::byte> small);
  void await_entries();
  void compare(int peer);
  [[nodiscard]] Agreement agreement(const Place& place) const;
  [[nodiscard]] Place place_of(Span<std::byte> values);

  void add_small(Span<std::byte> values, const Reduction& sum);
  void add_in_place(const Place& place, std::size_t bytes, const Reduction& sum);
  void add_by_parts(Span<std::byte> values, const Reduction& sum, bool first_is_written);
  void write_part(Span<std::byte> part, std::size_t slot);
  void add_share(Span<std::byte> part, std::size_t slot, const Reduction& sum);
  void read_part(Span<std::byte> part, std::size_t slot);
  void finish_step();
  void await_step();

  void post(std::atomic<std::uint32_t>& word, std::uint32_t value);
  void wake_sleepers();
  /// Spins up to `limit` before it sleeps.
  void await(int peer, std::atomic<std::uint32_t>& word, std::uint32_t target,
             std::chrono::microseconds limit);
  static bool spin(const std::atomic<std::uint32_t>& word, std::uint32_t target,
                   std::chrono::microseconds limit);
  void sleep(RankBlock& peer, std::atomic<std::uint32_t>& word, std::uint32_t target);
  void check(int peer, const std::atomic<std::uint32_t>& word, std::uint32_t target);
  [[noreturn]] void time_out(int peer);
  [[noreturn]] void desynchronise(int peer, const FrameHeader& mine, const FrameHeader& theirs);
  [[nodiscard]] FrameHeader own_header() const;
  [[nodiscard]] FrameHeader noted_header(int peer) const;
  [[nodiscard]] std::string where() const;

  [[nodiscard]] RankBlock& block(int rank) const {
    return *blocks_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Entry& entry(int rank) const { return block(rank).entries[stamp_ & 1U]; }
  [[nodiscard]] std::byte* small_slot(int rank) const;
  [[nodiscard]] std::byte* part_slot(int rank, std::size_t slot) const;
  template <class Fn>
  void for_peers(const Fn& fn) const {
    for (int peer = 0; peer < world_size_; ++peer) {
      if (peer != rank_) fn(peer);
    }
  }

  CallEnvironment& environment_;
  const std::shared_ptr<SharedSegment> segment_;
  const BoardLayout layout_;
  const int rank_;
  const int world_size_;
  std::vector<RankBlock*> blocks_;          // by rank
  std::vector<const std::byte*> operands_;  // by rank; working memory
  std::vector<Buffer> buffers_;
  std::uint32_t next_buffer_ = 1;
  std::uint64_t links_digest_ = 0;
  std::uint64_t written_bytes_ = 0;
  // The collective in progress.
  EntryWords words_;
  const Deadline* deadline_ = nullptr;
  std::uint32_t stamp_ = 0;
  std::uint32_t steps_ = 0;  // that this rank has posted
  std::size_t next_slot_ = 0;
  std::atomic<std::uint32_t>* posted_ = nullptr;  // whose sleepers are still to be woken
};

}  // namespace troupe
