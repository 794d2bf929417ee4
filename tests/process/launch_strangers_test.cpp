// What may be said at the rendezvous of several launchers, and by whom.
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/test_secret.h"
#include "troupe/distributed/net/connection.h"
#include "troupe/distributed/net/handshake.h"
#include "troupe/launcher/nodes/launch_node_messages.h"

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

/// One that holds the secret, and says to node 0 what a test wants.
class OtherNode {
 public:
  /// Proves to be `identity.client`, without the secret where that is another's.
  OtherNode(std::uint16_t port, const Identity& identity, unsigned char secret = 7) {
    const boost::asio::ip::tcp::endpoint to(boost::asio::ip::address_v4::loopback(), port);
    const Credentials mine{test_secret(secret), /*encrypt=*/true, identity.client,
                           identity.generation};
    handshake_ = Handshake::call(
        context_, to, {std::chrono::seconds(60), std::chrono::seconds(60)}, mine, identity,
        [this](ProvenSocket proven) { connected(std::move(proven)); },
        [this](Obstacle, const std::string&) { is_closed_ = true; });
    work_until([this] { return connection_ || is_closed_; });
  }

  void say(FrameType type, const std::string& payload) {
    FrameHeader header;
    header.type = type;
    header.rank = 1;
    if (connection_) connection_->send(header, payload);
  }
  /// Closed by node 0 without an answer.
  [[nodiscard]] bool is_turned_away() {
    work_until([this] { return is_closed_ || !frames_.empty(); });
    return is_closed_ && frames_.empty();
  }
  /// The payload of the first frame of this type; "" if it does not come.
  [[nodiscard]] std::string await(FrameType type) {
    std::string payload;
    work_until([&] {
      for (const auto& [came, text] : frames_)
        if (came == type) payload = text;
      return is_closed_ || !payload.empty();
    });
    return payload;
  }

 private:
  void connected(ProvenSocket proven) {
    connection_ = Connection::make(std::move(proven));
    connection_->start(
        [this](const FrameHeader& header, const std::vector<std::byte>& payload) {
          if (header.type == FrameType::heartbeat) return;
          frames_.emplace_back(
              header.type,
              std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
        },
        [this](const std::string&, FrameFault) { is_closed_ = true; });
  }
  void work_until(const std::function<bool()>& enough) {
    const Deadline limit = Deadline::in(kProcessLimit);
    while (!enough() && !limit.expired()) context_.run_one_for(std::chrono::milliseconds(100));
  }

  boost::asio::io_context context_;
  std::shared_ptr<Handshake> handshake_;
  std::shared_ptr<Connection> connection_;
  std::vector<std::pair<FrameType, std::string>> frames_;
  bool is_closed_ = false;
};

/// `troupe run` as node 0, which waits for the others.
struct NodesToMeet {
  explicit NodesToMeet(const std::string& nodes, const std::string& script) {
    std::ofstream(secret, std::ios::binary)
        << std::string(reinterpret_cast<const char*>(test_secret()->bytes().data()),
                       test_secret()->bytes().size());
    chmod(secret.c_str(), 0600);
    launcher = std::make_unique<Process>(run_command(
        {"--nodes", nodes, "--node", "0", "--rendezvous", "127.0.0.1:" + std::to_string(port),
         "--secret-file", secret, "--workers", "1"},
        script));
    REQUIRE(launcher->wait_for_output("waiting at 127.0.0.1:"));
  }
  TempDir folder;
  std::string secret = (folder / "secret").string();
  std::uint16_t port = free_port();
  std::unique_ptr<Process> launcher;
};

std::string hello_of(int node, int nodes) { return encode(NodeHello{node, nodes, 1}); }

}  // namespace

TEST_SUITE("process") {
  TEST_CASE("rendezvous: a hello that claims what was not proven is closed without a word") {
    const NodesToMeet meeting("3", "echo ran");
    const auto is_closed = [&](const Identity& identity, FrameType type, const std::string& hello,
                               unsigned char secret = 7) {
      OtherNode node(meeting.port, identity, secret);
      node.say(type, hello);
      return node.is_turned_away();
    };
    const Identity first{Purpose::agent, 0, "node/1", "node/0"};
    CHECK(is_closed(first, FrameType::hello, hello_of(2, 3)));  // another node than was proven
    CHECK(is_closed(first, FrameType::hello, hello_of(0, 3)));
    CHECK(is_closed({Purpose::agent, 0, "node/0", "node/0"}, FrameType::hello, hello_of(0, 3)));
    CHECK(is_closed(first, FrameType::hello, encode(NodeHello{1, 3, 0})));  // without workers
    CHECK(is_closed(first, FrameType::hello, "{}"));
    CHECK(is_closed(first, FrameType::report, hello_of(1, 3)));
    CHECK(is_closed({Purpose::agent, 0, "node/1", "node/2"}, FrameType::hello, hello_of(1, 3)));
    CHECK(is_closed({Purpose::agent, 9, "node/1", "node/0"}, FrameType::hello, hello_of(1, 3)));
    CHECK(is_closed({Purpose::control, 0, "node/1", "node/0"}, FrameType::hello, hello_of(1, 3)));
    CHECK(is_closed(first, FrameType::hello, hello_of(1, 3), 8));  // another secret
    OtherNode honest(meeting.port, first);
    honest.say(FrameType::hello, hello_of(1, 3));
    REQUIRE(meeting.launcher->wait_for_output(") has come with 1 worker."));
    meeting.launcher->signal(SIGTERM);
    const ProcessResult result = meeting.launcher->wait();
    CHECK(result.exit_code == 143);
    INFO(result.err);
    CHECK(count_of(result.err, "has come") == 1);
    CHECK(has(result.err, "node/1 (127.0.0.1:"));
    CHECK_FALSE(has(result.err, "node/2 ("));
    CHECK_FALSE(has(result.out, "ran"));
  }

  TEST_CASE("rendezvous: a node whose reason is as long as a frame ends the group with its code") {
    const NodesToMeet meeting("2", "sleep 1000");
    OtherNode node(meeting.port, {Purpose::agent, 0, "node/1", "node/0"});
    node.say(FrameType::hello, hello_of(1, 2));
    REQUIRE(node.await(FrameType::welcome) != "");
    NodeReport report{false, {7, true, true, 0, "x"}};
    std::string json = encode(report);
    json.insert(json.find("\"x\"") + 1,
                std::string(max_payload_bytes(FrameType::report) - 200, 'x'));
    node.say(FrameType::report, json);
    const std::string stop = node.await(FrameType::abort);
    CHECK(has(stop, "xxx ..."));
    report.has_ended = true;
    node.say(FrameType::report, encode(report));
    const ProcessResult result = meeting.launcher->wait();
    CHECK(result.exit_code == 7);
    CHECK_FALSE(has(result.err, "internal"));
  }
}
