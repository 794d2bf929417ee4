// Who sets malloc: parse_options, where it is not told otherwise.
#include <unistd.h>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/core/heap.h"

namespace allocator_test {

using troupe::testing::parsed;

namespace {

/// Bytes that the process's heap grows by while options are parsed. Malloc that is set for training
/// takes a GiB of addresses at once.
long growth(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  auto* const before = static_cast<char*>(sbrk(0));
  (void)troupe::parse_options(static_cast<int>(words.size()), words.data());
  return static_cast<char*>(sbrk(0)) - before;
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("allocator: flag, variable and configuration file leave malloc alone") {
    CHECK(parsed({}).tune_malloc);
    CHECK_FALSE(parsed({"--no-tune-malloc"}).tune_malloc);
    CHECK_FALSE(parsed({}, {{"TROUPE_NO_TUNE_MALLOC", "1"}}).tune_malloc);
    CHECK(parsed({}, {{"TROUPE_NO_TUNE_MALLOC", "0"}}).tune_malloc);
    const troupe::testing::TempDir folder;
    const std::string file = folder / "c.json";
    troupe::testing::write_file(file, R"({"no-tune-malloc": true})");
    CHECK_FALSE(parsed({"--config", file}).tune_malloc);
  }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  TEST_CASE("allocator: parse_options sets malloc, unless it is told to leave it alone") {
    constexpr long kHalfGiB = 1L << 29;
    CHECK(growth({"--no-tune-malloc"}) < kHalfGiB);
    CHECK(growth({}) > kHalfGiB);
  }
#endif
}

}  // namespace allocator_test
