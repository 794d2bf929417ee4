// LinkMaker: makes this worker's data links once the group is complete.
//
// topology.h says which ranks are linked. The higher rank connects, both ends prove their identity;
// the first frame names session, rank and generation, the answer is link_accept, and the connecting
// side, which may have given the socket up meanwhile, says link_accept too: only then is it a link
// for both. Within a machine (the same address in the welcome) a Unix socket is tried first, unless
// GroupOptions::transport forbids it; a process of another user there ends the attempt for good,
// and is not met by TCP instead.
//
// Whoever says the last word on a link cannot know that it arrives. So the called end, once it has
// said yes, gives the peer the time for that word or for another attempt, and then calls the link
// lost. Thread rule: network thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/membership/membership.h"
#include "troupe/distributed/net/link_listener.h"

namespace troupe {

class LinkMaker {
 public:
  /// `plane` hears of a link that cannot be made as options.transport asks, and suspects the peer
  /// of one that was lost while it was made; `on_done` runs once, when every link is made.
  LinkMaker(GroupState& state, boost::asio::io_context& context, ControlPlane& plane,
            std::function<void()> on_done);
  LinkMaker(const LinkMaker&) = delete;
  LinkMaker& operator=(const LinkMaker&) = delete;

  /// Lets workers of this machine connect by a Unix socket, whose name local_digits() then tells.
  void listen();
  /// As LinkAddress::local.
  [[nodiscard]] std::string local_digits() const { return listener_ ? listener_->digits() : ""; }
  /// Connects to the lower ranks; retries until the links are made or stop().
  void begin(const Welcome& welcome);
  /// A higher rank's link hello; it may come before begin().
  void take(Introduction hello);
  void stop();
  /// Those that this worker is yet to be linked with, once begun.
  [[nodiscard]] std::vector<int> lacking() const;

 private:
  struct Attempt;
  void connect(int peer, std::chrono::milliseconds patience);
  void say_hello(const std::shared_ptr<Attempt>& attempt);
  void give_up(const std::shared_ptr<Attempt>& attempt, Obstacle obstacle, const std::string& why);
  void retry_later(const std::shared_ptr<Attempt>& attempt);
  void refuse_unix(int peer, const std::string& cause);
  void answer(Introduction hello);
  void await_last_word(int peer);
  [[nodiscard]] bool is_its_own(const Introduction& hello) const;
  [[nodiscard]] bool is_expected(const Introduction& hello) const;
  [[nodiscard]] bool send_accept(ProvenSocket& to) const;
  [[nodiscard]] bool is_accept(const Attempt& attempt) const;
  void add(const std::shared_ptr<Attempt>& attempt);
  void close_attempts();
  [[nodiscard]] bool has(int peer) const { return made_.links.count(peer) > 0; }

  GroupState& state_;
  boost::asio::io_context& context_;
  ControlPlane& plane_;
  const std::function<void()> on_done_;
  std::unique_ptr<LinkListener> listener_;
  std::optional<Welcome> welcome_;
  std::set<int> by_tcp_;           // peers of this machine that no Unix socket reaches
  std::list<Introduction> early_;  // link hellos that came before the welcome; bounded
  std::list<std::shared_ptr<Attempt>> attempts_;
  std::map<int, boost::asio::steady_timer> doubts_;  // by peer whose last word is yet to come
  JoinedLinks made_;
  std::size_t wanted_ = 0;  // links; none are once all are made
  bool stopped_ = false;
};

}  // namespace troupe
