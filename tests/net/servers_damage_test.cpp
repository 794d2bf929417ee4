// One bit of what workers and servers tell each other is turned over on the way.
#include <random>
#include <string>

#include "tests/net/server_job.h"
#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/flipping_proxy.h"
#include "tests/support/redirected_connect.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"

namespace servers_damage_test {

namespace {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

// Of the chief, its training and its server: what each ended with.
struct Ends {
  std::exception_ptr chief;
  std::exception_ptr server;
  bool flipped = false;
};

Ends train_through(const Flip& flip, const ServerOptions& pace) {
  const CapturedLog log;
  ServerJob job(1, 1, pace);
  const std::uint16_t port = job.cluster.servers[0].address->port;
  FlippingProxy proxy(port, flip);
  const RedirectedConnect redirected(port, proxy.port());
  Ends ends;
  ends.chief = try_ranks(1, [&](int) {
    const auto client = job.started(0, 30);
    FloatModel model(job.model);
    train(*client, model, push_one);
    static_cast<void>(client->finish("done"));
    client->close();
  })[0];
  ends.server = job.server_errors()[0];
  ends.flipped = proxy.has_flipped();
  return ends;
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("damage: one bit at a hundred random places between worker and server ends the job") {
    std::mt19937_64 random(15);
    for (int place = 0; place < 100; ++place) {
      CAPTURE(place);
      Flip flip;
      const FrameType types[] = {FrameType::push, FrameType::values, FrameType::state};
      flip.type = types[place % 3];
      flip.bit = random();
      flip.in_header = place % 10 == 9;
      if (flip.type != FrameType::state) flip.skip = static_cast<int>(random() % 10);
      const Ends ends = train_through(flip, place % 2 == 0 ? ServerOptions{} : synchronous_pace());
      REQUIRE(ends.flipped);
      const std::string link = flip.type == FrameType::values
                                   ? "the link from ps/0 to worker/0 (127.0.0.1)"
                                   : "the link from worker/0 to ps/0 (127.0.0.1)";
      for (const auto& error : {ends.chief, ends.server}) {
        const std::string message = message_of(error);
        CAPTURE(message);
        CHECK(has(message, link + " delivered damaged bytes"));
        CHECK(is<PeerLost>(error));
      }
    }
  }
}

}  // namespace servers_damage_test
