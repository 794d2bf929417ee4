#include "distributed/collectives/collective_label.h"

#include "core/span.h"
#include "net/frame.h"

namespace troupe {

std::uint32_t label_of(const std::string& what) {
  return crc32_of(as_bytes(Span<const char>(what.data(), what.size())));
}

}  // namespace troupe
