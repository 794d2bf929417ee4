#include "distributed/collectives/collective_label.h"

#include "core/span.h"
#include "net/frame.h"

namespace troupe {
namespace {

thread_local std::uint32_t label = 0;

}  // namespace

CollectiveLabel::CollectiveLabel(const std::string& what) : former_(label) {
  label = crc32_of(as_bytes(Span<const char>(what.data(), what.size())));
}

CollectiveLabel::~CollectiveLabel() { label = former_; }

std::uint32_t collective_label() { return label; }

}  // namespace troupe
