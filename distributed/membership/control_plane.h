// ControlPlane: this process's end of the star. The chief's is in chief.h, every other worker's in
// member.h.
//
// Thread rule: the network thread only.
#pragma once

#include <string>

#include "distributed/membership/failure.h"
#include "net/acceptor.h"

namespace troupe {

class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  /// Starts meeting the others; the outcome appears in GroupState.
  virtual void join() = 0;
  /// This process failed or found a failure; the group must learn of it.
  virtual void report(const Failure& failure) = 0;
  /// The data link to `peer` broke; the chief decides who is at fault.
  virtual void suspect(int peer, const std::string& what) = 0;
  /// This process has passed the closing barrier.
  virtual void goodbye() = 0;
};

}  // namespace troupe
