#include "troupe/distributed/collectives/stream.h"

#include <sys/socket.h>

#include <memory>
#include <vector>

#include "tests/support/test_prelude.h"

namespace {

using namespace troupe;  // NOLINT: a test

// Both ends of one link.
struct LinkPair {
  LinkPair() {
    int fds[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    to_1 = std::make_unique<Link>(UniqueFd(fds[0]), nullptr, 1);
    to_0 = std::make_unique<Link>(UniqueFd(fds[1]), nullptr, 0);
  }
  std::unique_ptr<Link> to_1;  // rank 0's
  std::unique_ptr<Link> to_0;
};

FrameHeader header_of(std::uint64_t sequence, std::size_t bytes) {
  FrameHeader header;
  header.type = FrameType::data;
  header.operation = Operation::broadcast;
  header.dtype = DType::bytes;
  header.sequence = sequence;
  header.total_bytes = header.payload_bytes = bytes;
  return header;
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("stream: what comes with a header of another collective is stored nowhere") {
    LinkPair pair;
    const std::vector<std::byte> sent(100, std::byte{7});
    SendStream out;
    out.begin(*pair.to_1, header_of(2, sent.size()));
    out.append(Span<const std::byte>(sent));
    out.seal();
    while (!out.done()) static_cast<void>(out.advance(Tail::flush));
    std::vector<std::byte> into(sent.size(), std::byte{1});
    ReceiveStream in;
    in.begin(*pair.to_0, header_of(1, sent.size()));
    in.expect(Span<std::byte>(into));
    in.expect_seal();
    CHECK_THROWS_AS(
        [&] {
          while (!in.done()) static_cast<void>(in.advance());
        }(),
        Mismatch);
    CHECK(into == std::vector<std::byte>(sent.size(), std::byte{1}));
  }

  TEST_CASE("stream: messages of every length around what is read early arrive whole") {
    LinkPair pair;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kEarlyBytes - 1, kEarlyBytes,
                                    kEarlyBytes + 1, 20 * kEarlyBytes}) {
      CAPTURE(bytes);
      std::vector<std::byte> sent(bytes);
      for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::byte>(i * 7);
      std::vector<std::byte> into(bytes);
      SendStream out;
      ReceiveStream in;
      out.begin(*pair.to_1, header_of(1, bytes));
      out.append(Span<const std::byte>(sent));
      out.seal();
      in.begin(*pair.to_0, header_of(1, bytes));
      // Two pieces, so that the early bytes end inside the first or the second.
      in.expect(Span<std::byte>(into).subspan(0, bytes / 3));
      in.expect(Span<std::byte>(into).subspan(bytes / 3, bytes - bytes / 3));
      in.expect_seal();
      while (!out.done() || !in.done()) {
        static_cast<void>(out.advance(Tail::flush));
        static_cast<void>(in.advance());
      }
      CHECK(into == sent);
    }
  }
}
