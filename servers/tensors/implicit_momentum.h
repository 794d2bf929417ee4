// Asynchronous updates act like momentum of their own: a gradient that arrives late pushes on in a
// direction that the parameters have already gone. On top of an optimiser's momentum of 0.9 that
// can end in divergence.
// Source: Mitliagkas et al. 2016, "Asynchrony begets momentum, with an application to deep
// learning": W workers add about 1 - 1/W.
#pragma once

#include "hooks/replica.h"

namespace troupe::detail {

/// A warning in the log where an optimiser of the replica has so much momentum that `workers`
/// asynchronous ones may diverge with it. Measured: docs/parameter_servers.md.
void warn_of_implicit_momentum(Replica& replica, int workers);

}  // namespace troupe::detail
