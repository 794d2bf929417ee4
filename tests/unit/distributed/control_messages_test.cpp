#include "troupe/distributed/membership/control_messages.h"

#include "tests/support/message_text.h"
#include "tests/support/test_prelude.h"

namespace {

using troupe::testing::bytes_of;
using troupe::testing::replaced;
troupe::Hello sample() {
  troupe::Hello hello;
  hello.rank = 3;
  hello.task = "worker/3";
  hello.fingerprint = "f";
  hello.signature_hash = "s";
  hello.must_match = {{"--seed", "1"}};
  hello.listens = {"127.0.0.1", 2222, ""};
  return hello;
}
}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("control_messages: a hello survives the way") {
    const auto hello = troupe::hello_from(bytes_of(to_json(sample())));
    REQUIRE(hello);
    CHECK(to_json(*hello) == to_json(sample()));
    CHECK(hello->must_match.at("--seed") == "1");
    CHECK(hello->listens.port == 2222);
  }

  TEST_CASE("control_messages: a malformed hello is refused, never thrown") {
    const std::string good = to_json(sample());
    CHECK_FALSE(troupe::hello_from(bytes_of("")));
    CHECK_FALSE(troupe::hello_from(bytes_of("[]")));
    CHECK_FALSE(troupe::hello_from(bytes_of("{}")));
    CHECK_FALSE(troupe::hello_from(bytes_of(std::string(60000, '['))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "\"rank\":3", "\"rank\":-1"))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "\"rank\":3", "\"rank\":3.5"))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "\"rank\":3", "\"rank\":99999"))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "\"worker/3\"", "7"))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "2222", "65536"))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "\"1\"", "1"))));
    CHECK_FALSE(troupe::hello_from(bytes_of(replaced(good, "{\"--seed\":\"1\"}", "[\"1\"]"))));
    for (std::size_t n = 0; n < good.size(); ++n) {
      CHECK_FALSE(troupe::hello_from(bytes_of(good.substr(0, n))));
    }
  }

  TEST_CASE("control_messages: a failure survives the way, cut to what a frame carries") {
    troupe::Failure failure = {troupe::FailureKind::peer_failed, 2, "cause.", "fix.", 7};
    const auto read = troupe::failure_from(bytes_of(to_json(failure)));
    REQUIRE(read);
    CHECK(read->kind == troupe::FailureKind::peer_failed);
    CHECK(read->exit_code == 7);
    failure.cause = std::string(1 << 20, '\x01');  // every byte takes six in JSON
    CHECK(to_json(failure).size() < 64 * 1024);
    CHECK_FALSE(
        troupe::failure_from(bytes_of(replaced(to_json(*read), "\"kind\":2", "\"kind\":0"))));
    CHECK_FALSE(
        troupe::failure_from(bytes_of(replaced(to_json(*read), "\"kind\":2", "\"kind\":8"))));
    for (const char* code : {"0", "256"}) {  // 0 would make others end as if all had gone well
      const std::string changed =
          replaced(to_json(*read), "\"exit_code\":7", std::string("\"exit_code\":") + code);
      CHECK_FALSE(troupe::failure_from(bytes_of(changed)));
    }
  }

  TEST_CASE("control_messages: text that is not UTF-8 does not throw on the way out") {
    CHECK_FALSE(to_json(troupe::Suspicion{1, "\xff\xfe"}).empty());
  }

  TEST_CASE("control_messages: a welcome has its session and where links are made") {
    const troupe::Session session = troupe::make_session();
    CHECK(session != troupe::make_session());
    const std::string digits = "0123456789abcdef";
    const troupe::Welcome welcome{session, {{"127.0.0.1", 1, ""}, {"::1", 2, digits}}};
    const auto read = troupe::welcome_from(bytes_of(to_json(welcome)));
    REQUIRE(read);
    CHECK(read->session == session);
    CHECK(read->endpoints[1].host == "::1");
    CHECK(read->endpoints[1].local == digits);
    std::string by_name = replaced(to_json(welcome), "[", "{\"0\":");
    by_name = replaced(replaced(by_name, "]", "}"), ",{\"host\"", ",\"1\":{\"host\"");
    CHECK_FALSE(troupe::welcome_from(bytes_of(by_name)));
  }
}
