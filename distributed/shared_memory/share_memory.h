// How the workers of one machine come to share memory: rank 0 makes it and it is handed along the
// links; all agree whether they have it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/clock.h"
#include "distributed/collectives/call.h"
#include "distributed/shared_memory/shared_segment.h"

namespace troupe {

/// The same on every rank: either all have the segment, or `problem` says who has not and why.
struct SharedMemory {
  std::shared_ptr<SharedSegment> segment;
  int culprit = 0;      // of a problem
  std::string problem;  // "worker/1: ...", without a final stop
};

/// What is to be shared, and what this rank has to say to it.
struct SharingTerms {
  std::uint64_t bytes = 0;
  std::string objection;                             // why this rank cannot take part, or ""
  std::function<void(SharedSegment&)> lay_out;       // rank 0, before the others have it; or null
  std::function<void(const FrameHeader&)> on_enter;  // for each collective over links; or null
};

/// Collective: yes, over links; where one is TCP nobody shares.  Blocks: at most `deadline`.
/// Throws: as a collective.
[[nodiscard]] SharedMemory share_memory(CallEnvironment& environment, const SharingTerms& terms,
                                        const Deadline& deadline);

}  // namespace troupe
