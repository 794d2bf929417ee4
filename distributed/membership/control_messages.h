// Control messages: the JSON inside control frames. Every from_bytes() treats its input as hostile:
// wrong type, missing key, number out of range or bad JSON give nullopt, never an exception.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/span.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/membership/join_terms.h"

namespace troupe {

/// 16 random bytes that the chief draws: a link belongs to the group that was welcomed with them.
using Session = std::array<std::byte, 16>;
[[nodiscard]] Session make_session();

/// Where a worker's data links are to be made.
struct LinkAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string local;  // LinkListener::digits(); "": by TCP alone
};

/// What a worker says first.
struct Hello {
  int rank = 0;
  std::string task;
  std::string fingerprint;     // cluster_fingerprint()
  std::string signature_hash;  // signature_hash()
  std::map<std::string, std::string> must_match;
  LinkAddress listens;
};
/// This process's, but for where it listens.
[[nodiscard]] Hello make_hello(const Cluster& cluster, const JoinTerms& terms);
[[nodiscard]] std::string to_json(const Hello& hello);
[[nodiscard]] std::optional<Hello> hello_from(Span<const std::byte> bytes);

/// Whether the worker that is refused may try again.
enum class Retry { no, yes };
struct Refusal {
  std::string cause;
  std::string fix;
  Retry retry = Retry::no;
};
[[nodiscard]] std::string to_json(const Refusal& refusal);
[[nodiscard]] std::optional<Refusal> refusal_from(Span<const std::byte> bytes);

struct Welcome {
  Session session{};
  std::vector<LinkAddress> endpoints;  // by rank
};
[[nodiscard]] std::string to_json(const Welcome& welcome);
[[nodiscard]] std::optional<Welcome> welcome_from(Span<const std::byte> bytes);

/// A worker's link to `peer` broke.
struct Suspicion {
  int peer = 0;
  std::string what;
};
[[nodiscard]] std::string to_json(const Suspicion& suspicion);
[[nodiscard]] std::optional<Suspicion> suspicion_from(Span<const std::byte> bytes);

[[nodiscard]] std::string to_json(const Failure& failure);
[[nodiscard]] std::optional<Failure> failure_from(Span<const std::byte> bytes);

/// `text`, cut to what a control frame can carry.
[[nodiscard]] std::string cut_to_fit(const std::string& text);

}  // namespace troupe
