// Slurm's short form of machine names: "gnode[10,20,25-27],login" and the names it stands for.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

inline constexpr std::size_t kMaxMachines = 65'536;

/// The names, in order; zeros in front are kept ("n[08-10]" is n08, n09, n10), brackets may come
/// several to a name. `where` is what named the list, for messages.
/// Throws: ConfigError for an unbalanced bracket, a range that is not one, more than kMaxMachines.
[[nodiscard]] std::vector<std::string> expand_machine_list(const std::string& list,
                                                           const std::string& where);

}  // namespace troupe
