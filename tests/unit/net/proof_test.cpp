#include "troupe/distributed/net/proof.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/support/test_secret.h"
#include "troupe/core/failure.h"
#include "troupe/distributed/net/frame.h"

namespace proof_test {

namespace {

using namespace troupe;  // NOLINT: a test
using troupe::testing::test_secret;
using Bytes = std::vector<std::byte>;

const Identity kIdentity{Purpose::control, 7, "worker/1", "worker/0"};

Proof client_of(const Identity& identity = kIdentity, unsigned char secret = 7) {
  return {*test_secret(secret), identity};
}
Proof server_of(const std::string& task = "worker/0", unsigned char secret = 7) {
  return {*test_secret(secret), task};
}

/// Gives `to` all of these bytes, as it wants them; what it answers.
Bytes tell(Proof& to, const Bytes& bytes) {
  std::size_t at = 0;
  while (to.state() == Proof::State::going && at + to.awaited() <= bytes.size()) {
    const std::size_t next = to.awaited();
    to.take({bytes.data() + at, next});
    at += next;
  }
  return to.give();
}

/// The three messages of a proof that succeeds.
struct Recorded {
  Recorded() {
    Proof client = client_of();
    Proof server = server_of();
    opening = client.give();
    challenge = tell(server, opening);
    proof = tell(client, challenge);
  }
  Bytes opening;
  Bytes challenge;
  Bytes proof;
};

Bytes flipped(Bytes bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  return bytes;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("proof: both ends prove themselves, and know who connects for what") {
    for (const Purpose purpose :
         {Purpose::control, Purpose::link, Purpose::serving, Purpose::agent}) {
      const Identity identity{purpose, 0x0102030405060708, std::string(kMaxTaskBytes, 'w'), "ps/0"};
      Proof client = client_of(identity);
      Proof server = server_of("ps/0");
      CHECK_FALSE(server.has_opened());
      const Bytes opening = client.give();
      CHECK(opening.size() == kOpeningBytes);
      const Bytes challenge = tell(server, opening);
      CHECK(challenge.size() == kChallengeBytes);
      CHECK(server.has_opened());
      const Bytes proof = tell(client, challenge);
      CHECK(proof.size() == kClosingProofBytes);
      CHECK(client.state() == Proof::State::proven);
      CHECK(server.state() == Proof::State::going);
      CHECK(tell(server, proof).empty());
      CHECK(server.state() == Proof::State::proven);
      CHECK(server.awaited() == 0);
      CHECK(server.identity().purpose == purpose);
      CHECK(server.identity().generation == identity.generation);
      CHECK(server.identity().client == identity.client);
      CHECK(server.identity().server == "ps/0");
    }
  }

  TEST_CASE("proof: the first bytes are as in docs/wire.md") {
    Proof client = client_of();
    const Bytes opening = client.give();
    const std::string text(reinterpret_cast<const char*>(opening.data()), opening.size());
    CHECK(text.substr(0, 8) == std::string("TRUP\x04\x00\xc9\x01", 8));
    CHECK(text.substr(8, 8) == std::string("\x07\0\0\0\0\0\0\0", 8));
    CHECK(text.substr(16, 40) == "worker/1" + std::string(32, '\0'));
    CHECK(text.substr(56, 40) == "worker/0" + std::string(32, '\0'));
    CHECK(text.size() == 128);
  }

  TEST_CASE("proof: with another secret the client says nothing, and why") {
    Proof client = client_of();
    Proof server = server_of("worker/0", 8);
    const Bytes challenge = tell(server, client.give());
    CHECK(tell(client, challenge).empty());
    CHECK(client.state() == Proof::State::refused);
    CHECK(client.why() == "it holds another secret");
  }

  // Its code for the challenge may be anything: it never had to prove one.
  TEST_CASE("proof: who holds another secret proves nothing") {
    Proof server = server_of();
    Proof client = client_of(kIdentity, 8);
    Proof accomplice = server_of("worker/0", 8);
    const Bytes opening = client.give();
    tell(server, opening);
    const Bytes proof = tell(client, tell(accomplice, opening));
    REQUIRE(client.state() == Proof::State::proven);
    CHECK(tell(server, proof).empty());
    CHECK(server.state() == Proof::State::refused);
  }

  TEST_CASE("proof: what was said once is worth nothing again, to either end") {
    const Recorded former;
    Proof server = server_of();
    CHECK(tell(server, former.opening) != former.challenge);
    CHECK(tell(server, former.proof).empty());
    CHECK(server.state() == Proof::State::refused);
    Proof client = client_of();
    (void)client.give();
    CHECK(tell(client, former.challenge).empty());
    CHECK(client.state() == Proof::State::refused);
  }

  TEST_CASE("proof: nobody's own messages convince him") {
    Proof client = client_of();
    const Bytes opening = client.give();
    CHECK(tell(client, opening).empty());
    CHECK(client.state() == Proof::State::refused);

    // The server's code, sent back where the client's belongs.
    Proof server = server_of();
    const Bytes challenge = tell(server, opening);
    Bytes echo = Recorded().proof;
    std::copy(challenge.end() - sizeof(Key), challenge.end(), echo.end() - sizeof(Key));
    CHECK(tell(server, echo).empty());
    CHECK(server.state() == Proof::State::refused);
  }

  TEST_CASE("proof: one changed bit anywhere, and it fails") {
    for (std::size_t bit = 0; bit < 8 * kOpeningBytes; ++bit) {
      Proof client = client_of();
      Proof server = server_of();
      const Bytes challenge = tell(server, flipped(client.give(), bit));
      tell(client, challenge.size() == kChallengeBytes ? challenge : Bytes(kChallengeBytes));
      if (client.state() == Proof::State::proven) FAIL("an opening with another bit ", bit);
    }
    for (std::size_t bit = 0; bit < 8 * kChallengeBytes; ++bit) {
      Proof client = client_of();
      Proof server = server_of();
      CHECK(tell(client, flipped(tell(server, client.give()), bit)).empty());
      if (client.state() != Proof::State::refused) FAIL("a challenge with another bit ", bit);
    }
    for (std::size_t bit = 0; bit < 8 * kClosingProofBytes; ++bit) {
      Proof client = client_of();
      Proof server = server_of();
      const Bytes proof = tell(client, tell(server, client.give()));
      tell(server, flipped(proof, bit));
      if (server.state() != Proof::State::refused) FAIL("a proof with another bit ", bit);
    }
  }

  TEST_CASE("proof: an opening that is for somebody else, or none, is not answered") {
    const auto answer = [](const Bytes& opening) {
      Proof server = server_of();
      Bytes told = tell(server, opening);
      CHECK(server.state() == Proof::State::refused);
      CHECK_FALSE(server.has_opened());
      return told;
    };
    CHECK(answer(client_of({Purpose::control, 7, "worker/1", "worker/2"}).give()).empty());
    CHECK(answer(client_of({Purpose::control, 7, "worker/1", "worker/00"}).give()).empty());
    CHECK(answer(client_of({Purpose::control, 7, "a\x1b[2J", "worker/0"}).give()).empty());
    CHECK(answer(client_of({Purpose::control, 7, "a\nb", "worker/0"}).give()).empty());
    for (const unsigned char purpose : {0, 5, 255}) {
      Bytes opening = client_of().give();
      opening[7] = std::byte{purpose};
      CHECK(answer(opening).empty());
    }
    Bytes behind = client_of().give();
    behind[16 + 20] = std::byte{'x'};  // behind the end of the name
    CHECK(answer(behind).empty());
    Bytes nameless = client_of().give();
    std::fill_n(nameless.begin() + 16, kMaxTaskBytes, std::byte{0});
    CHECK(answer(nameless).empty());
    for (const Bytes& other : {Bytes(kOpeningBytes), Recorded().challenge, Recorded().proof}) {
      CHECK(answer(other).empty());
    }
  }

  TEST_CASE("proof: another version is told ours in a frame's length, and named by the client") {
    for (const unsigned char version : {0, 1, 2, 3, 255}) {
      Bytes opening = client_of().give();
      opening[4] = std::byte{version};
      Proof server = server_of();
      const Bytes note = tell(server, opening);
      CHECK(server.state() == Proof::State::refused);
      REQUIRE(note.size() == kFrameHeaderBytes);
      CHECK(std::memcmp(note.data(), "TRUP\x04\x00", 6) == 0);

      Proof client = client_of();
      (void)client.give();
      Bytes theirs = note;
      theirs[4] = std::byte{version};
      CHECK(tell(client, theirs).empty());
      CHECK(client.state() == Proof::State::refused);
      CHECK(client.why() == describe_versions(version, "this process"));
    }
  }

  TEST_CASE("proof: a byte at a time is as good, and what is short proves nothing") {
    const Recorded whole;
    Proof server = server_of();
    tell(server, Bytes(whole.opening.begin(), whole.opening.end() - 1));
    CHECK(server.state() == Proof::State::going);
    CHECK_FALSE(server.has_opened());
    CHECK(server.give().empty());
    CHECK(server.awaited() == kOpeningBytes - kProofPrefixBytes);
    CHECK_THROWS_AS(server.take({whole.opening.data(), 3}), InternalError);
  }

  TEST_CASE("proof: the key is the secret's, and another than any other use has") {
    const Recorded one;
    const Recorded two;
    CHECK(one.opening != two.opening);  // nonces
    CHECK(one.challenge != two.challenge);
    CHECK(test_secret()->derive("troupe proof hmac") != test_secret()->derive("troupe tls"));
  }
}

}  // namespace proof_test
