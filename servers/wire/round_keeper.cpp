#include "servers/wire/round_keeper.h"

#include <algorithm>

#include "core/text.h"

namespace troupe {
namespace {

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

// The push that the next update is built around, because its place comes first.
const RoundKeeper::Offer* RoundKeeper::at_hand() const {
  const auto first =
      std::min_element(offers_.begin(), offers_.end(), [](const Offer& one, const Offer& other) {
        return one.clock != other.clock ? one.clock < other.clock : one.sequence < other.sequence;
      });
  return first == offers_.end() ? nullptr : &*first;
}

std::vector<int> RoundKeeper::expected(const Offer& offer) const {
  std::vector<int> ranks;
  for (const int rank : clocks_.live_ranks()) {
    if (clocks_.takes_part(rank, offer.clock)) ranks.push_back(rank);
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
  const Offer* const offer = at_hand();
  if (offer == nullptr) return std::nullopt;
  Update update{expected(*offer), offer->clock, offer->sequence};
  const bool complete = std::all_of(update.ranks.begin(), update.ranks.end(), [&](int rank) {
    const Offer* const theirs = of(rank);
    return theirs != nullptr && theirs->clock == update.clock &&
           theirs->sequence == update.sequence;
  });
  if (update.ranks.empty() || !complete) return std::nullopt;
  for (const int rank : update.ranks) forget(rank);
  return update;
}

std::vector<int> RoundKeeper::take_all() {
  std::vector<int> ranks;
  for (const Offer& offer : offers_) ranks.push_back(offer.rank);
  offers_.clear();
  return ranks;
}

std::optional<RoundKeeper::Conflict> RoundKeeper::conflict() const {
  for (const Offer& offer : offers_) {
    for (const Offer& other : offers_) {
      const bool same_place = other.clock == offer.clock && other.sequence == offer.sequence;
      if (same_place && other.optimizer == offer.optimizer) continue;
      return Conflict{offer.rank, describe(offer), other.rank, describe(other)};
    }
    for (const int rank : expected(offer)) {
      if (clocks_.clock(rank) <= offer.clock || of(rank) != nullptr) continue;
      return Conflict{offer.rank, describe(offer), rank, "has ended that step without it"};
    }
  }
  return std::nullopt;
}

}  // namespace troupe
