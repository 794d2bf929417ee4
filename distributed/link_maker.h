// LinkMaker: makes this worker's data links once the group is complete.
//
// Who is linked with whom: topology.h. The higher rank connects; the first frame names session,
// rank and generation, the answer is link_accept. Thread rule: network thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/control_messages.h"
#include "distributed/group_state.h"
#include "net/acceptor.h"

namespace troupe {

class LinkMaker {
 public:
  /// `on_done` runs once, when every link is made.
  LinkMaker(GroupState& state, boost::asio::io_context& context, std::function<void()> on_done);
  ~LinkMaker();
  LinkMaker(const LinkMaker&) = delete;
  LinkMaker& operator=(const LinkMaker&) = delete;

  /// Connects to the lower ranks; retries until the links are made or stop().
  void begin(const Welcome& welcome);
  /// A higher rank's link hello; it may come before begin().
  void take(FirstFrame first);
  void stop();

 private:
  struct Attempt;
  void connect(int peer);
  void say_hello(const std::shared_ptr<Attempt>& attempt);
  void retry_later(const std::shared_ptr<Attempt>& attempt);
  void answer(FirstFrame first);
  void add(int peer, boost::asio::ip::tcp::socket& socket);
  [[nodiscard]] bool has(int peer) const;

  GroupState& state_;
  boost::asio::io_context& context_;
  std::function<void()> on_done_;
  std::optional<Welcome> welcome_;
  std::list<FirstFrame> early_;  // link hellos that came before the welcome; bounded
  std::list<std::shared_ptr<Attempt>> attempts_;
  JoinedLinks made_;
  std::size_t wanted_ = 0;
  bool stopped_ = false;
};

}  // namespace troupe
