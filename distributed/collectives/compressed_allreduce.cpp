// The ring over 16-bit values. What a rank sends on is its own float values plus what came, added
// in float and rounded once; what the rounding took stays with the rank in `errors`. Every element
// is rounded once on every rank: when its own chunk starts, or when it adds to what came; the last
// to add rounds the whole sum, and all take these bits. So, over all ranks and up to the float
// additions' own rounding: values before + errors before = values after + errors after.
#include "core/check.h"
#include "distributed/collectives/collectives.h"
#include "distributed/collectives/topology.h"

namespace troupe {

void compressed_allreduce(Call& call, const CompressedValues& buffers, const Rounding& rounding) {
  const auto [values, errors, wire] = buffers;
  TROUPE_CHECK_EQ(values.size(), errors.size());
  TROUPE_CHECK_EQ(values.size(), wire.size());
  const Span<std::byte> bytes = as_writable_bytes(wire);
  const auto index_of = [&](const std::byte* at) {
    return static_cast<std::size_t>(at - bytes.data()) / sizeof(std::uint16_t);
  };
  const Span<std::byte> own = slice_of(bytes, call.world_size(), call.rank());
  const std::size_t first = index_of(own.data());
  rounding.round(values.data() + first, errors.data() + first, wire.data() + first,
                 own.size() / sizeof(std::uint16_t));
  const AddingSink::Add add = [&](std::byte* into, const std::byte* from, std::size_t count) {
    const std::size_t at = index_of(into);
    rounding.add_and_round(values.data() + at, errors.data() + at,
                           reinterpret_cast<const std::uint16_t*>(from), wire.data() + at, count);
  };
  ring_allreduce(call, bytes, sizeof(std::uint16_t), add);
  rounding.widen(wire.data(), values.data(), wire.size());
}

}  // namespace troupe
