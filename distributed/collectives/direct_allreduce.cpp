// Direct reduction: each rank owns a slice of the values. It gets this slice from every other rank,
// adds up along the tree what has come from all, block by block, and sends the sums to all while
// more comes. One message each way and peer: the peer's slice as it is here, and the sums of mine.
// They alternate block by block, so that sums leave while the cache still holds them; the slice is
// ahead by what sockets hold, so that nobody waits for sums that are on their way.
//
// What has come from one peer and not yet from all waits in that peer's *window*, a ring of bytes
// in the scratch. A full window is not read, so a peer that is ahead is held back by its socket.
// Nothing waits in a circle: sums of a block need everybody's values of it, and those follow, in
// each message, on sums of earlier blocks alone. The same with seals (stream.h): a message has one
// behind the slice's last bytes, which waits for nothing, and one behind the last sums, which waits
// for the first seals of all.
#include <algorithm>
#include <cstring>
#include <vector>

#include "troupe/core/check.h"
#include "troupe/distributed/collectives/collectives.h"
#include "troupe/distributed/collectives/reduction.h"
#include "troupe/distributed/group/topology.h"

namespace troupe {
namespace {

// Source: docs/algorithms.md, "Why it is done so".
constexpr std::size_t kAlternateBytes = std::size_t{256} * 1024;
constexpr std::size_t kLeadBytes = std::size_t{512} * 1024;

// Calls `next_slice` and `next_sums` with the bytes of each piece of a message, in their order;
// next_slice also with whether it is the last of the slice.
template <class NextSlice, class NextSums>
void for_pieces(std::size_t slice_bytes, std::size_t sum_bytes, const NextSlice& next_slice,
                const NextSums& next_sums) {
  const auto slice = [&](std::size_t most) {
    if (sum_bytes <= kAlternateBytes) most = slice_bytes;  // the last sums follow on all of it
    const std::size_t bytes = std::min(most, slice_bytes);
    slice_bytes -= bytes;
    if (bytes > 0) next_slice(bytes, slice_bytes == 0);
  };
  slice(kLeadBytes);
  while (sum_bytes > 0) {
    const std::size_t sums = std::min(sum_bytes, kAlternateBytes);
    next_sums(sums);
    sum_bytes -= sums;
    if (sum_bytes > 0) slice(kAlternateBytes);
  }
}

// One peer's message on its way out: its pieces go as the sums in them are made.
class Outgoing {
 public:
  Outgoing(SendStream& stream, Span<const std::byte> slice, std::size_t sum_bytes)
      : stream_(&stream), slice_(slice), sums_left_(sum_bytes) {
    append_slice(kLeadBytes);
  }
  /// More sums, in order.
  void append_sums(Span<const std::byte> sums) {
    while (!sums.empty()) {
      const std::size_t bytes = std::min(sums.size(), until_slice_);
      stream_->append(sums.subspan(0, bytes));
      sums = sums.subspan(bytes, sums.size() - bytes);
      sums_left_ -= bytes;
      until_slice_ -= bytes;
      if (until_slice_ > 0) continue;
      append_slice(kAlternateBytes);
      until_slice_ = kAlternateBytes;
    }
  }
  /// Once all that the sums are made of is known to be right.
  void seal_sums() { stream_->seal(); }

 private:
  void append_slice(std::size_t most) {
    if (sums_left_ <= kAlternateBytes) most = slice_.size();
    const std::size_t bytes = std::min(most, slice_.size());
    if (bytes == 0) return;
    stream_->append(slice_.subspan(0, bytes));
    slice_ = slice_.subspan(bytes, slice_.size() - bytes);
    if (slice_.empty()) stream_->seal();
  }

  SendStream* stream_;
  Span<const std::byte> slice_;  // what has not been appended
  std::size_t sums_left_;
  std::size_t until_slice_ = kAlternateBytes;
};

class OwnSlice;

// One peer's values of this rank's slice, on their way into the sum.
class Window final : public Sink {
 public:
  Window(OwnSlice& slice, Span<std::byte> bytes) : slice_(&slice), bytes_(bytes) {}

  [[nodiscard]] Span<std::byte> room() override;
  void take(std::size_t bytes) override;

  [[nodiscard]] std::size_t received() const { return received_; }
  [[nodiscard]] std::size_t offset_of(std::size_t position) const {
    return (position - base_) % bytes_.size();
  }
  /// Where the bytes from `position` on are, and how many until the window wraps.
  [[nodiscard]] const std::byte* at(std::size_t position) const {
    return bytes_.data() + offset_of(position);
  }
  [[nodiscard]] std::size_t until_wrap(std::size_t position) const {
    return bytes_.size() - offset_of(position);
  }
  void rewind_if_empty();

 private:
  OwnSlice* slice_;
  Span<std::byte> bytes_;
  std::size_t received_ = 0;
  std::size_t base_ = 0;  // the position that is at the front of bytes_
};

class OwnSlice {
 public:
  /// `rank_index` is this rank's place among those whose values are added.
  OwnSlice(Span<std::byte> values, const Reduction& sum, const TreeCut& cut, std::size_t rank_index,
           std::size_t rank_count, Span<std::byte> scratch)
      : values_(values),
        sum_(sum),
        cut_(cut),
        rank_index_(rank_index),
        operands_(rank_count),
        unsealed_(rank_count - 1) {
    const std::size_t share = scratch.size() / (rank_count - 1);
    const std::size_t room = std::min(share / kSliceAlignment * kSliceAlignment, kMaxReadBytes);
    windows_.reserve(rank_count - 1);
    for (std::size_t i = 0; i + 1 < rank_count; ++i) {
      windows_.emplace_back(*this, scratch.subspan(i * room, room));
    }
  }
  OwnSlice(const OwnSlice&) = delete;
  OwnSlice& operator=(const OwnSlice&) = delete;

  /// The window of the rank at `index`, which is another one.
  [[nodiscard]] Window& window(std::size_t index) {
    return windows_[index < rank_index_ ? index : index - 1];
  }
  void send_sums_to(const Outgoing& to) { sends_.push_back(to); }
  [[nodiscard]] Span<std::byte> values() const { return values_; }
  [[nodiscard]] std::size_t summed() const { return summed_; }
  [[nodiscard]] std::size_t element_bytes() const { return sum_.element_bytes; }
  /// Adds up what has come from all.
  void add_up();
  /// One of the others' values of this slice are whole and right.
  void take_seal() {
    if (--unsealed_ > 0) return;
    for (Outgoing& send : sends_) send.seal_sums();
  }

 private:
  Span<std::byte> values_;
  const Reduction& sum_;
  const TreeCut& cut_;
  std::size_t rank_index_;
  std::vector<const std::byte*> operands_;
  std::vector<Window> windows_;
  std::vector<Outgoing> sends_;
  std::size_t summed_ = 0;
  std::size_t unsealed_;  // peers whose values are not yet known to be right
};

Span<std::byte> Window::room() {
  const std::size_t waiting = received_ - slice_->summed();
  const std::size_t left = slice_->values().size() - received_;
  const std::size_t room = std::min({bytes_.size() - waiting, until_wrap(received_), left});
  return bytes_.subspan(offset_of(received_), room);
}

void Window::take(std::size_t bytes) {
  received_ += bytes;
  slice_->add_up();
}

// At the front again, reads are as long as they can be, into memory that the cache still holds. Of
// an element that has come in part, the part is moved there.
void Window::rewind_if_empty() {
  const std::size_t waiting = received_ - slice_->summed();
  if (waiting >= slice_->element_bytes()) return;
  std::memmove(bytes_.data(), at(slice_->summed()), waiting);
  base_ = slice_->summed();
}

void OwnSlice::add_up() {
  std::size_t common = values_.size();
  for (const Window& window : windows_) common = std::min(common, window.received());
  common -= common % sum_.element_bytes;
  if (common == summed_) return;
  while (summed_ < common) {
    std::size_t bytes = common - summed_;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (i == rank_index_) {
        operands_[i] = values_.data() + summed_;
        continue;
      }
      bytes = std::min(bytes, window(i).until_wrap(summed_));
      operands_[i] = window(i).at(summed_);
    }
    std::byte* const into = values_.data() + summed_;
    add_along_tree(into, Span<const std::byte* const>(operands_.data(), operands_.size()),
                   bytes / sum_.element_bytes, sum_, cut_);
    for (Outgoing& send : sends_) send.append_sums({into, bytes});
    summed_ += bytes;
  }
  for (Window& window : windows_) window.rewind_if_empty();
}

}  // namespace

void direct_allreduce(Call& call, const SliceOwners& owners, const Reduction& sum,
                      const TreeCut& cut, Half half) {
  const auto count = owners.size();
  const auto mine = static_cast<std::size_t>(
      std::find_if(owners.begin(), owners.end(),
                   [&](const SliceOwner& owner) { return owner.rank == call.rank(); }) -
      owners.begin());
  TROUPE_CHECK(mine < count);
  if (count == 1) return;
  const Span<std::byte> own = owners[mine].slice;
  OwnSlice slice(own, sum, cut, mine, count, call.scratch());
  const bool slices = half != Half::sums;
  const bool sums = half != Half::slices;
  for (std::size_t step = 1; step < count; ++step) {  // nobody is everybody's first
    const std::size_t index = (mine + step) % count;
    Span<std::byte> theirs = owners[index].slice;
    const int peer = owners[index].rank;
    SendStream& out = call.send_to(peer, (slices ? theirs.size() : 0) + (sums ? own.size() : 0));
    ReceiveStream& in =
        call.receive_from(peer, (slices ? own.size() : 0) + (sums ? theirs.size() : 0));
    if (half == Half::both) {
      slice.send_sums_to(Outgoing(out, theirs, own.size()));
    } else {
      out.append(slices ? theirs : own);
      out.seal();
    }
    for_pieces(
        slices ? own.size() : 0, sums ? theirs.size() : 0,
        [&](std::size_t bytes, bool is_last) {
          in.expect(bytes, slice.window(index));
          if (is_last) in.expect_seal([&slice] { slice.take_seal(); });
        },
        [&](std::size_t bytes) {
          in.expect(theirs.subspan(0, bytes));
          theirs = theirs.subspan(bytes, theirs.size() - bytes);
        });
    in.expect_seal();
  }
  call.run();
}

}  // namespace troupe
