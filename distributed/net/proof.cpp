#include "troupe/distributed/net/proof.h"

#include <algorithm>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/distributed/net/frame.h"

namespace troupe {
namespace {

// Kinds of messages; a frame has its type in that place, and none of these numbers.
enum class ProofKind : std::uint8_t { opening = 201, challenge = 202, proof = 203, version = 204 };

constexpr const char* kClientWord = "client";
constexpr const char* kServerWord = "server";

void put_number(std::vector<std::byte>& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t number_at(Span<const std::byte> bytes, std::size_t offset, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  }
  return value;
}

void put_prefix(std::vector<std::byte>& out, ProofKind kind, std::uint8_t purpose = 0) {
  put_number(out, kFrameMagic, 4);
  put_number(out, kProtocolVersion, 2);
  put_number(out, static_cast<std::uint8_t>(kind), 1);
  put_number(out, purpose, 1);
}

bool has_prefix(Span<const std::byte> bytes, ProofKind kind, std::uint8_t purpose = 0) {
  std::vector<std::byte> expected;
  put_prefix(expected, kind, purpose);
  return std::equal(expected.begin(), expected.end(), bytes.begin());
}

void put_task(std::vector<std::byte>& out, const std::string& task) {
  TROUPE_CHECK(!task.empty() && task.size() <= kMaxTaskBytes);
  for (const char c : task) out.push_back(static_cast<std::byte>(c));
  out.resize(out.size() + kMaxTaskBytes - task.size());
}

// "" for what is no name: control characters, or something behind its end.
std::string task_at(Span<const std::byte> bytes, std::size_t offset) {
  std::string task;
  for (std::size_t i = 0; i < kMaxTaskBytes; ++i) {
    task += static_cast<char>(bytes[offset + i]);
  }
  task.erase(std::find_if(task.rbegin(), task.rend(), [](char c) { return c != '\0'; }).base(),
             task.end());
  const bool is_name = std::all_of(task.begin(), task.end(), [](char c) {
    const auto octet = static_cast<unsigned char>(c);
    return octet >= 0x20 && octet != 0x7f;
  });
  return is_name ? task : "";
}

void put_nonce(std::vector<std::byte>& out) {
  std::array<std::byte, kNonceBytes> nonce{};
  fill_random({nonce.data(), nonce.size()});
  out.insert(out.end(), nonce.begin(), nonce.end());
}

Key key_of(const Secret& secret) { return secret.derive("troupe proof hmac"); }

}  // namespace

Proof::Proof(const Secret& secret, const Identity& identity)
    : key_(key_of(secret)), identity_(identity) {
  std::vector<std::byte> opening;
  put_prefix(opening, ProofKind::opening, static_cast<std::uint8_t>(identity.purpose));
  put_number(opening, identity.generation, 8);
  put_task(opening, identity.client);
  put_task(opening, identity.server);
  put_nonce(opening);
  say(Span<const std::byte>(opening));
}

Proof::Proof(const Secret& secret, const std::string& task) : key_(key_of(secret)) {
  identity_.server = task;
}

void Proof::take(Span<const std::byte> bytes) {
  TROUPE_CHECK(state_ == State::going && bytes.size() == awaited());
  (this->*next_)(bytes);
}

void Proof::await(std::size_t bytes, Take next) {
  awaited_ = bytes;
  next_ = next;
}

// What tells our processes from others, and their versions apart, before more is awaited of them.
void Proof::take_prefix(Span<const std::byte> bytes) {
  const bool answers = identity_.client.empty();  // it has yet to hear who connects
  if (number_at(bytes, 0, 4) != kFrameMagic) return refuse("it is no process of this job");
  const auto version = static_cast<std::uint16_t>(number_at(bytes, 4, 2));
  if (version != kProtocolVersion) {
    if (answers) {
      put_prefix(out_, ProofKind::version);
      out_.resize(kVersionNoteBytes);
    }
    return refuse(describe_versions(version, "this process"));
  }
  const auto purpose = std::to_integer<std::uint8_t>(bytes[kProofPrefixBytes - 1]);
  const bool fits = answers ? has_prefix(bytes, ProofKind::opening, purpose)
                            : has_prefix(bytes, ProofKind::challenge);
  if (!fits) return refuse("it is no process of this job");
  said_.insert(said_.end(), bytes.begin(), bytes.end());
  answers ? await(kOpeningBytes - kProofPrefixBytes, &Proof::take_opening)
          : await(kChallengeBytes - kProofPrefixBytes, &Proof::take_challenge);
}

void Proof::take_opening(Span<const std::byte> bytes) {
  const auto purpose = std::to_integer<std::uint8_t>(said_[kProofPrefixBytes - 1]);
  identity_.client = task_at(bytes, 8);
  const bool fits = purpose >= 1 && purpose <= static_cast<std::uint8_t>(kLastPurpose) &&
                    !identity_.client.empty() &&
                    task_at(bytes, 8 + kMaxTaskBytes) == identity_.server;
  if (!fits) return refuse("it wants somebody else");
  identity_.purpose = static_cast<Purpose>(purpose);
  identity_.generation = number_at(bytes, 0, 8);
  said_.insert(said_.end(), bytes.begin(), bytes.end());
  std::vector<std::byte> challenge;
  put_prefix(challenge, ProofKind::challenge);
  put_nonce(challenge);
  say(Span<const std::byte>(challenge));
  const Key mine = code(kServerWord);
  say({mine.data(), mine.size()});
  await(kClosingProofBytes, &Proof::take_proof);
}

void Proof::take_challenge(Span<const std::byte> bytes) {
  said_.insert(said_.end(), bytes.begin(), bytes.begin() + kNonceBytes);
  const Key theirs = code(kServerWord);
  if (!same_bytes({theirs.data(), theirs.size()}, bytes.subspan(kNonceBytes, theirs.size()))) {
    return refuse("it holds another secret");
  }
  said_.insert(said_.end(), theirs.begin(), theirs.end());
  const Key mine = code(kClientWord);
  put_prefix(out_, ProofKind::proof);
  out_.insert(out_.end(), mine.begin(), mine.end());
  state_ = State::proven;
}

void Proof::take_proof(Span<const std::byte> bytes) {
  const Key theirs = code(kClientWord);
  const bool proves =
      has_prefix(bytes, ProofKind::proof) &&
      same_bytes({theirs.data(), theirs.size()}, bytes.subspan(kProofPrefixBytes, theirs.size()));
  if (!proves) return refuse("it holds another secret");
  state_ = State::proven;
}

void Proof::refuse(const std::string& why) {
  state_ = State::refused;
  why_ = why;
}

void Proof::say(Span<const std::byte> bytes) {
  said_.insert(said_.end(), bytes.begin(), bytes.end());
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> Proof::give() { return std::exchange(out_, {}); }

Key Proof::code(const char* direction) const {
  std::vector<std::byte> message;
  for (const char* c = direction; *c != '\0'; ++c) message.push_back(static_cast<std::byte>(*c));
  message.insert(message.end(), said_.begin(), said_.end());
  return hmac_sha256(key_, Span<const std::byte>(message));
}

}  // namespace troupe
