// Whether the workers of a group share memory, by options and machines, and the memory they share.
#pragma once

#include <cstddef>
#include <memory>

#include "troupe/core/clock.h"
#include "troupe/distributed/shared_memory/shared_memory_group.h"

namespace troupe {

/// The group's, or null where it shares no memory; the same on every rank. The chief logs what
/// was chosen and why; `joined` says on which machines the workers run.  Collective: yes.  Blocks:
/// at most `deadline`. Throws: ConfigError where Transport::shared_memory is asked for and cannot
/// be; as a collective.
[[nodiscard]] std::unique_ptr<SharedMemoryGroup> make_shared_memory_group(
    CallEnvironment& environment, const JoinedLinks& joined, const Deadline& deadline);

/// This rank's part of a buffer of `bytes` per rank, or null where not all can have it.
/// Collective: yes.  Blocks: at most `deadline`.  Throws: as a collective.
[[nodiscard]] std::shared_ptr<std::byte> make_shared_buffer(SharedMemoryGroup& group,
                                                            CallEnvironment& environment,
                                                            std::size_t bytes,
                                                            const Deadline& deadline);

}  // namespace troupe
