// What launchers of one group say to each other, as the payloads of frames
// (distributed/net/frame.h): hello, refuse, welcome (NodePlan), report and abort, in an elastic
// group worker.
// (goodbye has the exit code of all in its header's sequence; round a worker's rank at the start,
// and what it and the rendezvous say to each other, distributed/elastic/round_messages.h.) What
// arrives is hostile until read.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "troupe/core/options/cluster.h"
#include "troupe/core/span.h"
#include "troupe/launcher/nodes/launch_direction.h"
#include "troupe/launcher/run/launch_child.h"

namespace troupe {

/// "node/1"
[[nodiscard]] std::string node_task(int node);

/// hello: a node says what it was started with.
struct NodeHello {
  int node = 0;
  int nodes = 0;
  int workers = 0;
  bool is_elastic = false;
};
/// refuse: it cannot take part.
struct NodeRefusal {
  std::string cause;
  std::string fix;
  bool is_final = true;  // else it may be different in a while
};
/// report: a node's part is being stopped, or has ended.
struct NodeReport {
  bool has_ended = false;
  PartEnd part;
};
/// abort: the reason lies elsewhere.
struct NodeStop {
  int signal = 0;
  std::chrono::milliseconds limit{0};
  std::string reason;
};
/// worker, to node 0: a process is about to start and listens there. `joins`: a group that trains.
struct WorkerStarted {
  int worker = 0;  // its rank at the start, of all nodes
  Endpoint listens;
  bool joins = false;
};
/// worker, to node 0: a process has ended.
struct WorkerEnded {
  int worker = 0;
  ChildEnd end;
  std::chrono::milliseconds ran{0};
};
/// worker, from node 0: what is to happen to it.
struct WorkerOrder {
  int worker = 0;
  bool starts = false;  // again; else it gets SIGKILL
};

/// A message, one of the above or NodePlan. Long texts are cut, so that each fits into a frame
/// whatever other nodes have said.
template <class Message>
[[nodiscard]] std::string encode(const Message& message);

/// Unset for anything that encode() does not write.
template <class Message>
[[nodiscard]] std::optional<Message> decode_message(Span<const std::byte> bytes);

}  // namespace troupe
