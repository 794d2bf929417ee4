// run_after: what is to happen in a while, on the thread of a timer's context.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace troupe {

/// Runs `then` when `time` is over, unless the timer is cancelled, set anew or gone before.
template <class Then>
void run_after(boost::asio::steady_timer& timer, boost::asio::steady_timer::duration time,
               Then then) {
  timer.expires_after(time);
  timer.async_wait([then = std::move(then)](const boost::system::error_code& cancelled) {
    if (!cancelled) then();
  });
}

}  // namespace troupe
