#include "net/crc32.h"

#include <boost/crc.hpp>

namespace troupe {

std::uint32_t crc32_of(Span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace troupe
