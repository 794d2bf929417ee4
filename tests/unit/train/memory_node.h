// Nodes of a MemoryFileSystem: what processes see of a file or directory, what the disk is sure to
// have of it, and what a crash leaves.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

/// Names of a directory that come or go together; without a node a name goes.
using NameChanges = std::vector<std::pair<std::string, std::optional<std::size_t>>>;

struct MemoryNode {
  bool is_directory = false;
  std::string content;
  std::string sure_content;
  std::map<std::string, std::size_t> names;
  std::map<std::string, std::size_t> sure_names;
  std::vector<NameChanges> pending;  // each happens as one
};

using MemoryNodes = std::vector<MemoryNode>;

/// What a crash does to content that was not sure.
enum class Unsynced { kept, gone, half, zeros };

inline void apply(const NameChanges& changes, std::map<std::string, std::size_t>& names) {
  for (const auto& [name, node] : changes) {
    names.erase(name);
    if (node) names[name] = *node;
  }
}

/// The content of a file after a crash.
[[nodiscard]] inline std::string left_of(const MemoryNode& node, Unsynced unsynced) {
  const std::string& sure = node.sure_content;
  if (node.content.compare(0, sure.size(), sure) != 0) {  // rewritten: only the lock's record
    return unsynced == Unsynced::kept ? node.content : sure;
  }
  const std::size_t unsure = node.content.size() - sure.size();
  switch (unsynced) {
    case Unsynced::kept:
      return node.content;
    case Unsynced::gone:
      return sure;
    case Unsynced::half:
      return node.content.substr(0, sure.size() + unsure / 2);
    case Unsynced::zeros:
      return sure + std::string(unsure, '\0');
  }
  return sure;
}

/// What a name may still lead to after a crash; directories whose removal is sure are not.
inline void mark_reachable(const MemoryNodes& nodes, std::size_t node,
                           std::vector<bool>& reachable) {
  if (reachable[node]) return;
  reachable[node] = true;
  for (const auto& [name, child] : nodes[node].sure_names) mark_reachable(nodes, child, reachable);
  for (const NameChanges& changes : nodes[node].pending) {
    for (const auto& [name, child] : changes) {
      if (child) mark_reachable(nodes, *child, reachable);
    }
  }
}

/// Names and content below `node`.
[[nodiscard]] inline std::string fingerprint_of(const MemoryNodes& nodes, std::size_t node) {
  std::string result;
  for (const auto& [name, child] : nodes[node].names) {
    result += name + (nodes[child].is_directory ? "{" + fingerprint_of(nodes, child) + "}"
                                                : "=" + nodes[child].content + ";");
  }
  return result;
}

}  // namespace troupe::testing
