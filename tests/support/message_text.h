// A message's JSON as the bytes that arrive, and with a part of it changed.
#pragma once

#include <cstddef>
#include <string>

#include "tests/support/test_prelude.h"
#include "troupe/core/span.h"

namespace troupe::testing {

inline Span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// `text` with `to` in place of the first `from`, which must be there.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return text.replace(at, from.size(), to);
}

}  // namespace troupe::testing
