// What holds for every message that is JSON: the targets of control and of server messages.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"
#include "troupe/distributed/net/frame.h"

namespace troupe::fuzz {

constexpr std::size_t kCutAt = 4096;  // cut_to_fit's

/// Whether `came` holds all that `written` does, key for key: what was read was there, in that
/// form. Texts that the encoder may have cut are left out.
[[nodiscard]] inline bool covers(const nlohmann::json& came, const nlohmann::json& written) {
  if (written.is_object()) {
    const auto items = written.items();
    return came.is_object() && std::all_of(items.begin(), items.end(), [&](const auto& item) {
             return came.contains(item.key()) && covers(came[item.key()], item.value());
           });
  }
  if (written.is_array()) {
    return came.is_array() && came.size() == written.size() &&
           std::equal(came.begin(), came.end(), written.begin(), covers);
  }
  const bool cut = written.is_string() && written.get_ref<const std::string&>().size() >= kCutAt;
  return came.type() == written.type() && (cut || came == written);
}

/// `write` and `read` are a message's encoder and decoder. Returns whether `message` was accepted.
template <class Write, class Read>
bool survives(FrameType type, std::string_view message, const Write& write, const Read& read) {
  if (message.size() > max_payload_bytes(type))
    return false;  // a connection takes in no such frame
  const auto accepted = read(bytes_of(message));
  if (!accepted) return false;
  const std::string written = write(*accepted);
  FUZZ_REQUIRE(written.size() <= max_payload_bytes(type));
  FUZZ_REQUIRE(covers(nlohmann::json::parse(message), nlohmann::json::parse(written)));
  const auto again = read(bytes_of(written));
  FUZZ_REQUIRE(again);
  FUZZ_REQUIRE(write(*again) == written);
  return true;
}

/// A message of our own, whatever texts are in it, fits into a frame and is understood.
template <class Message, class Write, class Read>
void arrives(FrameType type, const Message& message, const Write& write, const Read& read) {
  FUZZ_REQUIRE(survives(type, write(message), write, read));
}

}  // namespace troupe::fuzz
