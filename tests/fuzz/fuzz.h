// What the fuzz targets share. A target is one source file, in a namespace of its own: seeds() and
// run(), which holds what a parser of hostile bytes does against what it promises. fuzz_main.cpp
// makes libFuzzer's program of it, corpus_main.cpp a test that needs no clang.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/core/span.h"

/// A promise; broken, it ends the process as a crash would.
#define FUZZ_REQUIRE(condition) \
  ((condition) ? static_cast<void>(0) : ::troupe::fuzz::fail(#condition, __FILE__, __LINE__))

namespace troupe::fuzz {

struct Target {
  const char* name;
  /// Inputs as the product's own encoders make them, all of which run() takes in.
  std::vector<std::string> (*seeds)();
  /// One input. Returns whether a parser accepted it.
  bool (*run)(std::string_view input);
};

/// Those of this program.
[[nodiscard]] inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

/// A target's file ends with one.
struct Registration {
  explicit Registration(const Target& target) { targets().push_back(target); }
};

[[noreturn]] inline void fail(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
  std::abort();
}

[[nodiscard]] inline Span<const std::byte> bytes_of(std::string_view text) {
  return as_bytes(Span<const char>(text.data(), text.size()));
}
[[nodiscard]] inline std::string text_of(Span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Whether `call` returns; false if it throws a `Refusal`, an Error that says what to do. Any other
/// exception ends the process.
template <class Refusal, class Call>
bool accepts(const Call& call) {
  try {
    call();
  } catch (const Refusal& error) {
    FUZZ_REQUIRE(!error.cause().empty() && !error.fix().empty());
    return false;
  }
  return true;
}

/// Takes values from the front of an input; behind its end everything is 0.
class Values {
 public:
  explicit Values(std::string_view input) : rest_(input) {}

  template <class Number>
  [[nodiscard]] Number number() {
    Number value{};
    const std::size_t size = rest_.size() < sizeof value ? rest_.size() : sizeof value;
    if (size != 0) std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return value;
  }
  /// At most `limit`.
  [[nodiscard]] std::uint64_t below_or(std::uint64_t limit) {
    return number<std::uint64_t>() % (limit + 1);
  }
  /// A length of two bytes, and as many.
  [[nodiscard]] std::string text() {
    const std::size_t size = number<std::uint16_t>();
    const std::string taken(rest_.substr(0, size));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// A file without a name, its owner's alone, for parsers that are given a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content);
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  [[nodiscard]] std::string content() const;

 private:
  int fd_ = -1;
};

}  // namespace troupe::fuzz
