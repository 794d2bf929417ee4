// The table's cells: what each was decided to come to, and what came of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/programs/columns.h"

namespace troupe::programs {

/// "": the cell is as it was decided.
[[nodiscard]] std::string check(Column column, const Program& program, const Expected& expected,
                                const Outcome& outcome);

/// Trains, and checks what came of it.
using Judge =
    std::function<std::string(Column column, const Program& program, const Expected& expected)>;
/// What a cell's ranks are. Those that draw random numbers have to be processes.
enum class Ranks { threads, processes };
/// All programs in these columns whose cells have such ranks, but for those that the variables
/// TROUPE_PROGRAMS and TROUPE_COLUMNS leave out; TROUPE_PROGRAMS_JSON names a file for
/// write_page.py.
void run_columns(const std::vector<Column>& chosen, Ranks ranks, const Judge& is_wrong);

}  // namespace troupe::programs
