#include "servers/wire/round_keeper.h"

#include <algorithm>

#include "core/text.h"

namespace troupe {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string describe(const RoundKeeper::Offer& offer) {
  return text("updates optimizer ", offer.optimizer, " in push ", offer.sequence, " of step ",
              offer.clock + 1);
}

}  // namespace

void RoundKeeper::forget(int rank) {
  offers_.erase(std::remove_if(offers_.begin(), offers_.end(),
                               [&](const Offer& offer) { return offer.rank == rank; }),
                offers_.end());
}

const RoundKeeper::Offer* RoundKeeper::of(int rank) const {
  const auto found = std::find_if(offers_.begin(), offers_.end(),
                                  [&](const Offer& offer) { return offer.rank == rank; });
  return found == offers_.end() ? nullptr : &*found;
}

// With backup workers, on server 0: a further push of the round that was decided last.
bool RoundKeeper::continues(const Offer& offer) const {
  return offer.clock == decided_ - 1 && offer.sequence > 1 && contains(contributors_, offer.rank);
}

// The push that the next update is built around, because its place comes first; null where server
// 0 has to choose, or has nothing.
const RoundKeeper::Offer* RoundKeeper::at_hand() const {
  const Offer* first = nullptr;
  for (const Offer& offer : offers_) {
    if (chooses() && !continues(offer)) continue;
    const bool before = first == nullptr || offer.clock < first->clock ||
                        (offer.clock == first->clock && offer.sequence < first->sequence);
    if (before) first = &offer;
  }
  return first;
}

std::vector<int> RoundKeeper::expected(const Offer& offer) const {
  std::vector<int> ranks;
  for (const int rank : clocks_.live_ranks()) {
    if (!clocks_.takes_part(rank, offer.clock)) continue;
    if (chooses() && !contains(contributors_, rank)) continue;
    if (has_backups() && !chooses() && !contains(offer.accepted, rank)) continue;
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> RoundKeeper::missing() const {
  std::vector<int> ranks;
  const Offer* const offer = at_hand();
  if (offer == nullptr) return ranks;
  for (const int rank : expected(*offer)) {
    if (of(rank) == nullptr) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<RoundKeeper::Update> RoundKeeper::next() {
  if (const Offer* const offer = at_hand()) {
    const std::vector<int> ranks = expected(*offer);
    const bool complete = !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
      const Offer* const theirs = of(rank);
      return theirs != nullptr && theirs->clock == offer->clock &&
             theirs->sequence == offer->sequence;
    });
    if (complete) return take(ranks, *offer);
  }
  return chooses() && !held_ ? choose() : std::nullopt;
}

std::optional<RoundKeeper::Update> RoundKeeper::choose() {
  const auto live = static_cast<int>(clocks_.live_ranks().size());
  const auto quorum = static_cast<std::size_t>(std::max(live - backup_workers_, 1));
  std::vector<int> ranks;
  const Offer* like = nullptr;
  for (const Offer& offer : offers_) {
    const bool counts = offer.clock == decided_ && offer.sequence == 1 && clocks_.live(offer.rank);
    if (!counts || ranks.size() == quorum) continue;
    ranks.push_back(offer.rank);
    like = &offer;
  }
  if (like == nullptr || ranks.size() < quorum) return std::nullopt;
  std::sort(ranks.begin(), ranks.end());
  ++decided_;
  contributors_ = ranks;
  return take(ranks, *like);
}

RoundKeeper::Update RoundKeeper::take(const std::vector<int>& ranks, const Offer& like) {
  Update update{ranks, like.clock, like.sequence};
  for (const int rank : ranks) forget(rank);
  return update;
}

std::vector<int> RoundKeeper::take_late() {
  std::vector<int> ranks;
  if (!chooses()) return ranks;
  for (const Offer& offer : offers_) {
    if (offer.clock < decided_ && !continues(offer)) ranks.push_back(offer.rank);
  }
  for (const int rank : ranks) forget(rank);
  return ranks;
}

std::vector<int> RoundKeeper::take_all() {
  std::vector<int> ranks;
  for (const Offer& offer : offers_) ranks.push_back(offer.rank);
  offers_.clear();
  return ranks;
}

std::optional<RoundKeeper::Conflict> RoundKeeper::conflict() const {
  for (const Offer& offer : offers_) {
    const bool undecided = chooses() && !continues(offer);
    for (const Offer& other : offers_) {
      const bool same_place = other.clock == offer.clock && other.sequence == offer.sequence;
      const bool differ = same_place ? other.optimizer != offer.optimizer : !has_backups();
      if (differ) return Conflict{offer.rank, describe(offer), other.rank, describe(other)};
    }
    if (undecided) continue;
    for (const int rank : expected(offer)) {
      if (clocks_.clock(rank) <= offer.clock || of(rank) != nullptr) continue;
      return Conflict{offer.rank, describe(offer), rank, "has ended that step without it"};
    }
  }
  return std::nullopt;
}

}  // namespace troupe
