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
/// All programs in these columns, but for those that the variables TROUPE_PROGRAMS and
/// TROUPE_COLUMNS leave out; TROUPE_PROGRAMS_JSON names a file for write_page.py.
void run_columns(const std::vector<Column>& chosen, const Judge& is_wrong);

}  // namespace troupe::programs
