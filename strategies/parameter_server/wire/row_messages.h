// Row messages: gradients to a server and values from it, in the layout of docs/wire.md.
//
// All numbers are little endian and everything starts at a multiple of 8 bytes, so that what is
// decoded are views of the message, not copies. What comes in is hostile: shards, rows and lengths
// are checked against the placement before anything is built from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/core/span.h"
#include "troupe/distributed/net/connection.h"
#include "troupe/strategies/parameter_server/wire/placement.h"

namespace troupe {

/// The largest bulk frames between a worker and `server`.
[[nodiscard]] BulkLimits bulk_limits(const ServedModel& model, int server);

/// Which step and which of its updates a push is for.
struct PushPlace {
  std::int64_t clock = 0;
  std::uint32_t sequence = 1;  // of the step's pushes, from 1
};

/// Those of `push`'s gradients whose shards are on `server`.
[[nodiscard]] std::vector<std::byte> encode_push(const PushPlace& place, const Push& push,
                                                 const ServedModel& model, int server);

/// A push with the message that its spans are views of. Can be moved, not copied.
struct ReceivedPush {
  std::vector<std::byte> message;
  PushPlace place;
  Push push;

  ReceivedPush() = default;
  ReceivedPush(ReceivedPush&&) = default;
  ReceivedPush& operator=(ReceivedPush&&) = default;
};
[[nodiscard]] std::optional<ReceivedPush> decode_push(std::vector<std::byte> message,
                                                      const ServedModel& model, int server);

/// The present values of what has changed, read from the store into the message, which takes the
/// memory of `memory`.
[[nodiscard]] std::vector<std::byte> encode_values(const std::vector<ChangeLog::Change>& changes,
                                                   const ServedModel& model,
                                                   const ParameterStore& store,
                                                   std::vector<std::byte> memory = {});
/// Views of `message`.
[[nodiscard]] std::optional<std::vector<RowBlock>> decode_values(Span<const std::byte> message,
                                                                 const ServedModel& model,
                                                                 int server);

}  // namespace troupe
