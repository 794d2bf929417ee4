// A failure of one worker is everybody's: the others learn the reason, not just that a connection
// closed.
#pragma once

#include <exception>
#include <string>

#include "core/error.h"
#include "strategies/strategy.h"

namespace troupe::detail {

/// Runs `body`. When it throws, tells the group why, then lets the exception go on. Failures that
/// came from the group, a stop that all agreed on, and a gradient that is not finite, which all see
/// alike, are known there already.
template <class Body>
auto sharing_failure(Strategy& strategy, Body&& body) {
  try {
    return body();
  } catch (const NetError&) {
    throw;
  } catch (const Stopped&) {
    throw;
  } catch (const NonFiniteError&) {
    throw;
  } catch (const Error& error) {
    strategy.abort(error.what(), error.exit_code());
    throw;
  } catch (const std::exception& error) {
    const std::string message = error.what();
    strategy.abort(message.substr(0, message.find('\n')), kExitFailed);
    throw;
  }
}

/// Throws what every worker finds for itself in the same collective. Whoever is first tells the
/// group all the same: one that is still on its way out of that collective would else see no more
/// than a connection that closed.
template <class Failure>
[[noreturn]] void fail_alike(Strategy& strategy, const Failure& error) {
  strategy.abort(error.what(), error.exit_code());
  throw error;
}

}  // namespace troupe::detail
