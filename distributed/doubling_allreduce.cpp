// Recursive doubling: in round k rank r exchanges everything with r xor 2^k and adds. With W not a
// power of two, the ranks beyond the largest power of two P hand their values to r - P first and
// get the result back last.
#include "core/check.h"
#include "distributed/collectives.h"

namespace troupe {
namespace {

void add(Span<std::byte> values, Span<std::byte> from, const Reduction& sum) {
  add_to(values.data(), from.data(), values.size() / sum.element_bytes, sum);
}

void send_all(Call& call, int peer, Span<std::byte> values) {
  SendStream out = call.send_to(peer, values.size());
  out.append(values);
  call.run({&out}, {});
}

void receive_all(Call& call, int peer, Span<std::byte> into) {
  ReceiveStream in = call.receive_from(peer, into.size());
  in.expect(into, nullptr, Forward::no);
  call.run({}, {&in});
}

}  // namespace

void doubling_allreduce(Call& call, Span<std::byte> values, const Reduction& sum) {
  TROUPE_CHECK(values.size() <= kDoublingMaxBytes);
  const int rank = call.rank();
  int power = 1;
  while (power * 2 <= call.world_size()) power *= 2;
  const Span<std::byte> theirs = call.scratch().subspan(0, values.size());

  if (rank >= power) {
    send_all(call, rank - power, values);
    return receive_all(call, rank - power, values);
  }
  const bool has_partner = rank + power < call.world_size();
  if (has_partner) {
    receive_all(call, rank + power, theirs);
    add(values, theirs, sum);
  }
  for (int distance = 1; distance < power; distance *= 2) {
    const int peer = rank ^ distance;
    SendStream out = call.send_to(peer, values.size());
    ReceiveStream in = call.receive_from(peer, values.size());
    out.append(values);
    in.expect(theirs, nullptr, Forward::no);
    call.run({&out}, {&in});
    add(values, theirs, sum);  // a + b and b + a round alike: both sides get the same bits
  }
  if (has_partner) send_all(call, rank + power, values);
}

}  // namespace troupe
