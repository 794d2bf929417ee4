// ServerReport: what the chief says of the parameter servers when training has ended.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/parameter_server/wire/server_client.h"

namespace troupe::detail {

struct ServerReport {
  PaceStatistics counted;       // over all workers
  std::int64_t steps = 0;       // of this worker, as is what follows
  std::int64_t pushed = 0;      // bytes
  std::int64_t pulled = 0;      // bytes, but for the first values
  std::int64_t first = 0;       // bytes: every parameter, before the first step
  std::int64_t dense_step = 0;  // bytes of all trained parameters

  /// Before each step of this worker, when its values are there.
  void begin_step(const ServerClient& client);
  /// After it.
  void add_step(const ServerClient& client);
  void log() const;
  /// {"updates": ..., "staleness": {"0": ...}, "missed": {...}, "lost": [...],
  /// "joined_again": [...], "chief": {"steps", "first_bytes", "pushed_bytes_per_step",
  /// "pulled_bytes_per_step", "dense_bytes_per_step"}}
  [[nodiscard]] std::string json() const;
};

}  // namespace troupe::detail
