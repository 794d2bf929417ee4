#include "troupe/distributed/group/tree_cut.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "troupe/core/check.h"

namespace troupe {
namespace {

/// The largest power of two below `leaves` (at least 2): how many are below the left branch.
int left_branch(int leaves) {
  int left = 1;
  while (left * 2 < leaves) left *= 2;
  return left;
}

}  // namespace

TreeCut::TreeCut(int leaves, int parts) {
  TROUPE_CHECK(parts >= 1 && parts <= leaves);
  std::priority_queue<std::pair<int, int>> nodes;  // by size, then by their first leaf
  nodes.emplace(leaves, 0);
  while (static_cast<int>(nodes.size()) < parts) {
    const auto [size, begin] = nodes.top();
    nodes.pop();
    const int left = left_branch(size);
    nodes.emplace(left, begin);
    nodes.emplace(size - left, begin + left);
  }
  for (; !nodes.empty(); nodes.pop()) begins_.push_back(nodes.top().second);
  std::sort(begins_.begin(), begins_.end());
  begins_.push_back(leaves);
  is_rank_order_ = leaves == parts || adds_as_ranks(0, parts);
}

bool TreeCut::adds_as_ranks(int first, int last) const {
  if (last - first == 1) return true;
  const int at = middle(first, last);
  return at == first + left_branch(last - first) && adds_as_ranks(first, at) &&
         adds_as_ranks(at, last);
}

int TreeCut::middle(int first, int last) const {
  const auto at = [this](int part) { return begins_.begin() + part; };
  const int begin = *at(first);
  const int right = begin + left_branch(*at(last) - begin);
  return static_cast<int>(std::lower_bound(at(first), at(last), right) - begins_.begin());
}

std::vector<TreeCut::Join> TreeCut::joins_of(int part) const {
  std::vector<Join> joins;
  int first = 0;
  int last = parts();
  while (last - first > 1) {
    const int at = middle(first, last);
    joins.push_back({first, at, last});
    (part < at ? last : first) = at;
  }
  std::reverse(joins.begin(), joins.end());
  return joins;
}

}  // namespace troupe
