#include "troupe/cli/cluster/json_document.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "troupe/core/clock.h"
#include "troupe/core/error.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace troupe {

nlohmann::json parse_json(const std::string& document, const std::string& name) {
  if (document.size() > kMaxJsonBytes) {
    throw ConfigError(
        text(name, " has ", document.size(), " bytes; the limit is ", kMaxJsonBytes, "."),
        "remove what does not belong into it.");
  }
  try {
    return parse_bounded_json(as_bytes(Span<const char>(document.data(), document.size())),
                              kMaxJsonDepth);
  } catch (const JsonFault& fault) {
    if (fault.kind == JsonFault::Kind::too_deep) {
      throw ConfigError(text(name, " is nested deeper than ", kMaxJsonDepth, " levels."),
                        "write a flatter document.");
    }
    if (fault.kind == JsonFault::Kind::repeated_key) {
      throw ConfigError(text(name, fault.path, " appears twice."), "keep one of the two.");
    }
    const bool blank = document.find_first_not_of(" \t\r\n") == std::string::npos;
    throw ConfigError(blank ? text(name, " is empty, which is not valid JSON.")
                            : text(name, " is not valid JSON: ", fault.what, "."),
                      blank ? "remove it, or write {}." : "correct it at that place.");
  }
}

nlohmann::json parse_json_file(const std::string& path, const std::string& flag,
                               std::chrono::milliseconds limit) {
  const auto fail = [&](const std::string& what, const std::string& fix) {
    throw ConfigError(text(flag, " ", path, " ", what, "."), fix);
  };
  // Non-blocking: a pipe whose writer is missing or silent is waited for until the deadline.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // NOLINT
  std::string document(kMaxJsonBytes + 1, '\0');
  std::size_t size = 0;
  for (const Deadline deadline = Deadline::in(limit); size < document.size();) {
    pollfd waited = {file.get(), POLLIN, 0};
    const auto left = static_cast<int>(deadline.remaining().count());
    const int ready = file.get() < 0 ? 1 : ::poll(&waited, 1, left);
    if (ready < 0) continue;  // a signal
    if (ready == 0) {
      fail(text("did not end within ", deadline.limit_seconds(), " s"),
           "give a file, or a pipe whose writer writes and closes it.");
    }
    const auto got = ::read(file.get(), document.data() + size, document.size() - size);
    if (got == 0) break;
    if (got > 0) size += static_cast<std::size_t>(got);
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      fail("cannot be read", "check that the file exists and may be read.");
    }
  }
  if (size > kMaxJsonBytes) {
    fail(text("has more than ", kMaxJsonBytes, " bytes"), "give the file that is meant.");
  }
  document.resize(size);
  return parse_json(document, path);
}

std::string json_kind(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return "null";
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "an array";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

}  // namespace troupe
