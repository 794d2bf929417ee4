// Frames, and the control messages in them.
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/json_messages.h"
#include "troupe/core/checksum.h"
#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/link_listener.h"

namespace troupe::fuzz::control_target {
namespace {

enum Kind : unsigned char {
  frame,
  repaired_frame,
  hello,
  refusal,
  welcome,
  suspicion,
  failure,
  own
};
constexpr unsigned kKinds = own + 1;

const auto kWrite = [](const auto& message) { return to_json(message); };

bool run_frame(std::string_view input) {
  if (input.size() != kFrameHeaderBytes) return false;
  FrameHeader header;
  header.rank = kMaxWorldSize;
  const FrameFault fault = decode_frame(bytes_of(input), header);
  if (fault != FrameFault::none) {
    FUZZ_REQUIRE(header.rank == kMaxWorldSize);  // unchanged
    FUZZ_REQUIRE((fault == FrameFault::bad_version) == (header.version != kProtocolVersion));
    return false;
  }
  FUZZ_REQUIRE(header.payload_bytes <= max_payload_bytes(header.type));
  FUZZ_REQUIRE(header.rank < kMaxWorldSize && header.root < kMaxWorldSize);
  const auto encoded = encode_frame(header);
  FUZZ_REQUIRE(text_of({encoded.data(), encoded.size()}) == input);
  return true;
}

/// With magic, version and checksum as they should be, so that the rest is read.
bool run_repaired(std::string_view input) {
  std::string bytes(input.substr(0, kFrameHeaderBytes));
  bytes.resize(kFrameHeaderBytes);
  const auto put = [&bytes](std::size_t at, auto value) {
    bytes.replace(at, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(0, kFrameMagic);
  put(4, kProtocolVersion);
  put(kFrameHeaderBytes - 4, checksum_of(bytes_of(bytes).subspan(0, kFrameHeaderBytes - 4)));
  return run_frame(bytes);
}

/// Messages that this process makes, with texts that may be anything.
bool run_own(std::string_view input) {
  Values values(input);
  Failure made;
  made.kind = static_cast<FailureKind>(1 + values.below_or(6));
  made.culprit = static_cast<int>(values.below_or(kMaxWorldSize - 1));
  made.exit_code = static_cast<int>(1 + values.below_or(254));
  made.cause = values.text();
  made.fix = values.text();
  arrives(FrameType::abort, made, kWrite, failure_from);
  arrives(FrameType::suspect, Suspicion{made.culprit, made.cause}, kWrite, suspicion_from);
  arrives(FrameType::refuse, Refusal{made.cause, made.fix, Retry::yes}, kWrite, refusal_from);
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

std::string frame_of(FrameType type, std::uint64_t payload_bytes) {
  FrameHeader header;
  header.type = type;
  header.operation = Operation::all_reduce;
  header.dtype = DType::float32;
  header.rank = 3;
  header.generation = 1'700'000'000;
  header.sequence = 17;
  header.payload_bytes = payload_bytes;
  const auto encoded = encode_frame(header);
  return text_of({encoded.data(), encoded.size()});
}

}  // namespace

std::vector<std::string> seeds() {
  Hello greeting;
  greeting.rank = 1;
  greeting.task = "worker/1";
  greeting.fingerprint = greeting.signature_hash = std::string(64, 'a');
  greeting.must_match = {{"--seed", "1"}, {"--batch-size", "64"}};
  greeting.listens = {"fd00::1", 2222, std::string(kLinkNameBytes, 'c')};
  Welcome all_here;
  all_here.endpoints = {{"127.0.0.1", 2222, ""}, {"worker-1.example", 65535, ""}};
  const Failure broken{FailureKind::timeout, 1, "worker/1 is silent.", "look at it.", 138};
  return {
      seed(frame, frame_of(FrameType::data, std::uint64_t{1} << 46)),
      seed(frame, frame_of(FrameType::hello, 65536)),
      seed(repaired_frame, frame_of(FrameType::heartbeat, 0)),
      seed(hello, to_json(greeting)),
      seed(refusal, to_json(Refusal{"no.", "wait.", Retry::yes})),
      seed(welcome, to_json(all_here)),
      seed(suspicion, to_json(Suspicion{2, "it closed the connection"})),
      seed(failure, to_json(broken)),
      seed(own, std::string(24, '\7') + std::string("\4\0\xC3\xA4\xE2\x82\5\0\"\\\n\x1b[", 13))};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case frame:
      return run_frame(input);
    case repaired_frame:
      return run_repaired(input);
    case hello:
      return survives(FrameType::hello, input, kWrite, hello_from);
    case refusal:
      return survives(FrameType::refuse, input, kWrite, refusal_from);
    case welcome:
      return survives(FrameType::welcome, input, kWrite, welcome_from);
    case suspicion:
      return survives(FrameType::suspect, input, kWrite, suspicion_from);
    case failure:
      return survives(FrameType::report, input, kWrite, failure_from);
    default:
      return run_own(input);
  }
}

const Registration registered({"control", seeds, run});

}  // namespace troupe::fuzz::control_target
