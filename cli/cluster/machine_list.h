// Slurm's short forms: of machine names, "gnode[10,20,25-27],login", and of tasks on each of them,
// "2(x3),1".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

inline constexpr std::size_t kMaxMachines = 65'536;

/// The names, in order; zeros in front are kept ("n[08-10]" is n08, n09, n10), brackets may come
/// several to a name, at most 8. `where` is what named the list, for messages.
/// Throws: ConfigError for an unbalanced bracket, a range that is not one, more than kMaxMachines,
/// a name longer than 253 characters.
[[nodiscard]] std::vector<std::string> expand_machine_list(const std::string& list,
                                                           const std::string& where);

/// Tasks on the machine that is number `machine` of a step, from 0: 2, 2, 2 and 1 for "2(x3),1".
/// Unset where `counts` does not reach that far, or does not look like this: it is but a hint.
[[nodiscard]] std::optional<int> tasks_on_machine(const std::string& counts, std::int64_t machine);

}  // namespace troupe
