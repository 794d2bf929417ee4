#include "troupe/distributed/membership/join_terms.h"

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr const char* kAbsent = "(absent)";

std::string line_or_absent(const std::vector<std::string>& lines, std::size_t i) {
  return i < lines.size() ? lines[i] : kAbsent;
}

std::string value_or_absent(const std::map<std::string, std::string>& values,
                            const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? kAbsent : found->second;
}

}  // namespace

std::string cluster_fingerprint(const Cluster& cluster) {
  std::string canonical = text("troupe cluster 1\n", cluster.world_size(), "\n");
  const auto add = [&canonical](const char* what, const Member& member) {
    canonical += text(what, member.task, "\t");
    if (member.address) canonical += text(member.address->host, "\t", member.address->port);
    canonical += "\n";
  };
  for (const Member& member : cluster.members) add("", member);
  for (const Member& server : cluster.servers) add("server ", server);
  return sha256_hex(canonical);
}

std::string signature_hash(const std::vector<std::string>& lines) {
  return sha256_hex(join_lines(lines));
}

std::optional<TermsDifference> first_difference(const std::map<std::string, std::string>& chief,
                                                const std::map<std::string, std::string>& worker) {
  std::map<std::string, std::string> all = chief;
  all.insert(worker.begin(), worker.end());
  for (const auto& [name, ignored] : all) {
    const std::string there = value_or_absent(chief, name);
    const std::string here = value_or_absent(worker, name);
    if (there != here) return TermsDifference{name, there, here};
  }
  return std::nullopt;
}

std::optional<TermsDifference> first_difference(const std::vector<std::string>& chief,
                                                const std::vector<std::string>& worker) {
  for (std::size_t i = 0; i < std::max(chief.size(), worker.size()); ++i) {
    const std::string there = line_or_absent(chief, i);
    const std::string here = line_or_absent(worker, i);
    if (there != here) return TermsDifference{text("line ", i + 1), there, here};
  }
  return std::nullopt;
}

Failure terms_differ(int culprit, const std::string& what, const TermsDifference& difference,
                     const std::string& there, const std::string& here) {
  return {FailureKind::config, culprit,
          text(there, " and ", here, " differ in ", what, ": '", difference.chief, "' on ", there,
               ", '", difference.worker, "' on ", here, "."),
          "give every process the same options and the same program.", kExitUsage};
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string joined;
  for (const std::string& line : lines) joined += line + "\n";
  return joined;
}

std::vector<std::string> split_lines(const std::string& joined) {
  std::vector<std::string> lines = split(joined, '\n');
  lines.pop_back();  // each line ends with a newline
  return lines;
}

}  // namespace troupe
