// Random: every choice of a simulation comes from a stream of these numbers, and so from its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace troupe::simulation {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// From 0 on, below `limit`.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  /// From `least` to `most`, both included.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most - least) + 1));
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <class T>
  T any_of(std::initializer_list<T> choices) {
    return *(choices.begin() + below(choices.size()));
  }
  /// A stream of its own: what is drawn from it changes nothing here.
  Random branch() { return Random(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::simulation
