#include "troupe/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/split_mix.h"

namespace troupe {
namespace {

using Indices = std::vector<std::int64_t>;

// A bijection whose every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) { return detail::SplitMix(x).next(); }

Indices counted(std::int64_t examples) {
  Indices order(static_cast<std::size_t>(examples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

void check_count(const char* sampler, const char* what, std::size_t given, std::int64_t examples) {
  if (static_cast<std::int64_t>(given) == examples) return;
  throw ConfigError(text("the sampler \"", sampler, "\" was given ", given, " ", what,
                         ", the data set has ", examples, " examples."),
                    text("give one of the ", what, " for each example of the training split."));
}

/// Sorts each group of full batches by length and shuffles all batches. The last group may have a
/// short batch, cut out at any place; it comes last.
Indices bucket(const EpochDraw& draw, const Indices& lengths, std::int64_t batches) {
  std::mt19937_64 random = draw.random();
  Indices order = counted(draw.examples);
  detail::shuffle(order.begin(), order.end(), random);
  const std::int64_t full = draw.examples / draw.batch;
  const std::int64_t rest = draw.examples % draw.batch;
  const auto shorter = [&](std::int64_t a, std::int64_t b) {
    return lengths[static_cast<std::size_t>(a)] < lengths[static_cast<std::size_t>(b)];
  };
  // A group of examples begins at a multiple of `batches` batches. Equal lengths stay shuffled.
  for (std::int64_t first = 0; first < full || first == 0;) {
    const std::int64_t end = full - first <= batches ? full : first + batches;
    const auto from = order.begin() + first * draw.batch;
    const auto to = end == full ? order.end() : order.begin() + end * draw.batch;
    std::stable_sort(from, to, shorter);
    if (end == full && rest > 0) {
      const auto place = static_cast<std::int64_t>(
          draw_below(static_cast<std::uint64_t>(end - first + 1), random));
      const auto cut = from + place * draw.batch;
      std::rotate(cut, cut + rest, to);
    }
    if (end == full) break;
    first = end;
  }
  Indices places = counted(full);
  detail::shuffle(places.begin(), places.end(), random);
  Indices mixed;
  mixed.reserve(order.size());
  for (const std::int64_t place : places) {
    const auto from = order.begin() + place * draw.batch;
    mixed.insert(mixed.end(), from, from + draw.batch);
  }
  mixed.insert(mixed.end(), order.end() - rest, order.end());
  return mixed;
}

/// sums[i]: of the weights up to i.
Indices draw_weighted(const EpochDraw& draw, const std::vector<double>& sums, std::int64_t draws) {
  constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
  std::mt19937_64 random = draw.random();
  Indices order(static_cast<std::size_t>(draws));
  for (std::int64_t& example : order) {
    // Below 1, but the product may be rounded up to the sum.
    const double at = static_cast<double>(random() >> 11) * kUnit * sums.back();
    const auto found = std::upper_bound(sums.begin(), sums.end(), at);
    const auto end = std::lower_bound(sums.begin(), sums.end(), sums.back());
    example = std::min(found, end) - sums.begin();
  }
  return order;
}

}  // namespace

std::mt19937_64 EpochDraw::random() const {
  return std::mt19937_64(mix(mix(seed) + static_cast<std::uint64_t>(epoch)));
}

// std::uniform_int_distribution would do, but each standard library draws differently.
std::uint64_t draw_below(std::uint64_t bound, std::mt19937_64& random) {
  const std::uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound: the values too many
  for (;;) {
    const std::uint64_t value = random();
    if (value >= rejected) return value % bound;
  }
}

Sampler shuffled() {
  const auto order = [](const EpochDraw& draw) {
    Indices indices = counted(draw.examples);
    std::mt19937_64 random = draw.random();
    detail::shuffle(indices.begin(), indices.end(), random);
    return indices;
  };
  return {"shuffled", order, false, 0, /*argument_alone=*/true};
}

Sampler sequential() {
  return {"sequential", [](const EpochDraw& draw) { return counted(draw.examples); }, false, 0,
          /*argument_alone=*/true};
}

Sampler weighted(std::vector<double> weights, std::int64_t draws) {
  auto sums = std::make_shared<std::vector<double>>();
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (weights[i] >= 0 && std::isfinite(sum)) {
      sums->push_back(sum);
      continue;
    }
    throw ConfigError(text("weight ", i, " of a weighted sampler is ", weights[i],
                           ", the sum with those before it ", sum, "."),
                      "give finite weights of at least 0, with a finite sum.");
  }
  if (!(sum > 0) || draws < 0) {
    throw ConfigError(
        text("a weighted sampler is to make ", draws, " draws of weights with sum ", sum, "."),
        "give a weight above 0 to at least one example, and 0 draws or more.");
  }
  const auto order = [sums, draws](const EpochDraw& draw) {
    check_count("weighted", "weights", sums->size(), draw.examples);
    return draw_weighted(draw, *sums, draws > 0 ? draws : draw.examples);
  };
  return {"weighted", order, /*repeats=*/true, draws, false};
}

Sampler bucketed(std::vector<std::int64_t> lengths, std::int64_t batches) {
  if (batches < 1) {
    throw ConfigError(text("a bucketed sampler is to sort groups of ", batches, " batches."),
                      "give a number of at least 1.");
  }
  const auto shared = std::make_shared<const Indices>(std::move(lengths));
  const auto order = [shared, batches](const EpochDraw& draw) {
    check_count("bucketed", "lengths", shared->size(), draw.examples);
    return bucket(draw, *shared, batches);
  };
  return {"bucketed", order, false, 0, false};
}

}  // namespace troupe
