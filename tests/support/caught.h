// Looking at exceptions and messages that ranks ended with.
#pragma once

#include <exception>
#include <string>

#include "troupe/core/error.h"

namespace troupe::testing {

[[nodiscard]] inline bool has(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

/// Whether `error` holds an exception of type E.
template <class E>
[[nodiscard]] bool is(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const E&) {
    return true;
  } catch (...) {
  }
  return false;
}

/// Of one of Troupe's errors; 0: it is none.
[[nodiscard]] inline int exit_code_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& caught) {
    return caught.exit_code();
  } catch (...) {
  }
  return 0;
}

}  // namespace troupe::testing
