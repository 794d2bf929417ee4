// run_main: the frame of every program's main(). It turns exceptions into one line on stderr and an
// exit code (core/error.h), and is the only catch-all.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

namespace troupe {
namespace detail {
[[nodiscard]] int run_guarded(const std::function<int()>& body);
}  // namespace detail

/// Runs `body` and returns the process's exit code: what body returned (0 if it returns nothing),
/// or that of the exception it threw, after one line `troupe: error[<kind>]: <cause> Fix: <fix>`. A
/// TrainingRun destroyed without finish() is such an error, too. SIGPIPE and SIGXFSZ are ignored
/// from here on: a closed pipe and a full file are reported as errors. SIGUSR1, unless the program
/// handles it, is a SIGTERM. Requests to stop that the parent has blocked are
/// let through. Handlers that a shared library has installed for SIGTERM, SIGHUP and
/// SIGINT are taken out.
template <class Body>
[[nodiscard]] int run_main(Body&& body) {
  return detail::run_guarded([&]() -> int {
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body();
      return 0;
    } else {
      return body();
    }
  });
}

}  // namespace troupe
