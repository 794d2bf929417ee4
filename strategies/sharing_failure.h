// How one worker's failure becomes the group's.
#pragma once

#include <exception>

#include "troupe/core/failure.h"
#include "troupe/core/user_code.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

/// Runs `body`. If it throws, tells the group why, then rethrows: a failure of one worker fails
/// all, and the others learn more than that a connection closed. The group knows already of
/// failures that it reported itself, of a stop that all agreed on, and of a non-finite gradient,
/// which all see alike.
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
    strategy.abort(words_of(error), kExitFailed);
    throw;
  }
}

/// Throws an error that every worker detects itself in the same collective. The first to do so
/// still tells the group: a worker that has not left that collective yet would otherwise see only a
/// closed connection.
template <class Failure>
[[noreturn]] void fail_alike(Strategy& strategy, const Failure& error) {
  strategy.abort(error.what(), error.exit_code());
  throw error;
}

}  // namespace troupe::detail
