// TreeCut: a cut through the tree in which values are added, and which node of it each part hosts.
//
// The tree over n *leaves* is the binary one whose inner nodes begin at multiples of their size,
// absent leaves left out: ((x0 + x1) + (x2 + x3)) + (x4 + x5). Leaves are ranks or virtual
// replicas; a *part*, a worker or a device, adds up the leaves of one node by itself. Sums over
// parts follow the tree above the cut, so they have the bits of the sum over all leaves, however
// many parts there are. Immutable; any thread may call. Free of sockets and of LibTorch.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe {

class TreeCut {
 public:
  /// Neighbouring leaves, begin to end - 1.
  struct Node {
    int begin = 0;
    int end = 0;
    [[nodiscard]] int size() const { return end - begin; }
  };
  /// Where two neighbouring branches are joined: parts first to middle - 1, and middle to last - 1.
  struct Join {
    int first = 0;
    int middle = 0;
    int last = 0;
  };

  /// Every part hosts one leaf: the order of sums is *rank order*.
  explicit TreeCut(int parts) : TreeCut(parts, parts) {}
  /// While there are fewer nodes than parts, the last of the largest nodes is split: 8 leaves on 3
  /// parts are 4, 2, 2. Requires 1 <= parts <= leaves.
  /// Cost: parts * log(parts).
  TreeCut(int leaves, int parts);

  [[nodiscard]] int leaves() const { return begins_.back(); }
  [[nodiscard]] int parts() const { return static_cast<int>(begins_.size()) - 1; }
  [[nodiscard]] Node node(int part) const {
    const auto i = static_cast<std::size_t>(part);
    return {begins_[i], begins_[i + 1]};
  }
  /// Whether parts are added in the order of a cut of one leaf each: rank order over the parts.
  [[nodiscard]] bool is_rank_order() const { return is_rank_order_; }

  /// Of parts first to last - 1, at least two, which together are a node: the first one below its
  /// right branch.
  [[nodiscard]] int middle(int first, int last) const;
  /// The joins that `part` takes part in, the lowest first; together they make the whole sum.
  [[nodiscard]] std::vector<Join> joins_of(int part) const;

 private:
  [[nodiscard]] bool adds_as_ranks(int first, int last) const;

  std::vector<int> begins_;  // of the parts' nodes, then the number of leaves
  bool is_rank_order_ = true;
};

}  // namespace troupe
