#include "troupe/distributed/membership/control_messages.h"

#include "troupe/core/error.h"
#include "troupe/core/secret.h"
#include "troupe/core/sha256.h"
#include "troupe/distributed/membership/json_fields.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/link_listener.h"

namespace troupe {
namespace {

using detail::Json;
using detail::list_in;
using detail::number_in;
using detail::object_in;
using detail::rank_in;
using detail::string_in;

// A failure is two sentences of this size at most, in 64 KiB even when every byte is escaped.
constexpr std::size_t kMaxTextBytes = 4096;

unsigned digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  throw DataError("not a hexadecimal digit.", "");
}

Json json_of_address(const LinkAddress& address) {
  return {{"host", address.host}, {"port", address.port}, {"local", address.local}};
}

LinkAddress address_in(const Json& json) {
  LinkAddress address = {string_in(json, "host"),
                         static_cast<std::uint16_t>(number_in(json, "port", 65535)),
                         string_in(json, "local")};
  const bool is_name = address.local.empty() || address.local.size() == kLinkNameBytes;
  if (!is_name) throw DataError("the name of a Unix socket has another length.", "");
  for (const char digit : address.local) static_cast<void>(digit_of(digit));
  return address;
}

Session session_in(const Json& json) {
  const std::string hex = string_in(json, "session");
  Session session{};
  if (hex.size() != 2 * session.size()) throw DataError("a session has another length.", "");
  for (std::size_t i = 0; i < session.size(); ++i) {
    session[i] = static_cast<std::byte>(digit_of(hex[2 * i]) << 4U | digit_of(hex[2 * i + 1]));
  }
  return session;
}

}  // namespace

std::string cut_to_fit(const std::string& text) {
  return text.size() <= kMaxTextBytes ? text : text.substr(0, kMaxTextBytes) + " ...";
}

Session make_session() {
  Session session{};
  fill_random({session.data(), session.size()});
  return session;
}

Hello make_hello(const Cluster& cluster, const JoinTerms& terms) {
  Hello hello;
  hello.rank = cluster.rank;
  hello.task = cluster.task();
  hello.fingerprint = cluster_fingerprint(cluster);
  hello.signature_hash = signature_hash(terms.model_signature);
  hello.must_match = terms.must_match;
  return hello;
}

std::string to_json(const Hello& hello) {
  return detail::dump_json({{"rank", hello.rank},
                            {"task", hello.task},
                            {"fingerprint", hello.fingerprint},
                            {"signature_hash", hello.signature_hash},
                            {"must_match", hello.must_match},
                            {"listens", json_of_address(hello.listens)}});
}

std::optional<Hello> hello_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    Hello hello;
    hello.rank = rank_in(json, "rank");
    hello.task = string_in(json, "task");
    hello.fingerprint = string_in(json, "fingerprint");
    hello.signature_hash = string_in(json, "signature_hash");
    for (const auto& [name, value] : object_in(json, "must_match").items()) {
      hello.must_match[name] = value.get_ref<const std::string&>();
    }
    hello.listens = address_in(json.at("listens"));
    return hello;
  });
}

std::string to_json(const Refusal& refusal) {
  return detail::dump_json({{"cause", cut_to_fit(refusal.cause)},
                            {"fix", cut_to_fit(refusal.fix)},
                            {"retry", refusal.retry == Retry::yes}});
}

std::optional<Refusal> refusal_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    return Refusal{string_in(json, "cause"), string_in(json, "fix"),
                   json.at("retry").get<bool>() ? Retry::yes : Retry::no};
  });
}

std::string to_json(const Welcome& welcome) {
  Json endpoints = Json::array();
  for (const LinkAddress& endpoint : welcome.endpoints)
    endpoints.push_back(json_of_address(endpoint));
  return detail::dump_json({{"session", hex_of({welcome.session.data(), welcome.session.size()})},
                            {"endpoints", endpoints}});
}

std::optional<Welcome> welcome_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    Welcome welcome;
    welcome.session = session_in(json);
    for (const Json& endpoint : list_in(json, "endpoints")) {
      welcome.endpoints.push_back(address_in(endpoint));
    }
    return welcome;
  });
}

std::string to_json(const Suspicion& suspicion) {
  return detail::dump_json({{"peer", suspicion.peer}, {"what", cut_to_fit(suspicion.what)}});
}

std::optional<Suspicion> suspicion_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    return Suspicion{rank_in(json, "peer"), string_in(json, "what")};
  });
}

std::string to_json(const Failure& failure) {
  return detail::dump_json({{"kind", static_cast<int>(failure.kind)},
                            {"culprit", failure.culprit},
                            {"cause", cut_to_fit(failure.cause)},
                            {"fix", cut_to_fit(failure.fix)},
                            {"exit_code", failure.exit_code}});
}

std::optional<Failure> failure_from(Span<const std::byte> bytes) {
  return detail::parse_json(bytes, [](const Json& json) {
    Failure failure;
    const auto kind = number_in(json, "kind", static_cast<unsigned>(FailureKind::internal));
    if (kind == 0) throw DataError("a kind is out of range.", "");
    failure.kind = static_cast<FailureKind>(kind);
    failure.culprit = rank_in(json, "culprit");
    failure.cause = string_in(json, "cause");
    failure.fix = string_in(json, "fix");
    failure.exit_code = static_cast<int>(number_in(json, "exit_code", 255));
    if (failure.exit_code == 0) throw DataError("no failure ends with success.", "");
    return failure;
  });
}

}  // namespace troupe
