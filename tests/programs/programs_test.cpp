// Each cell of the table: a program's hooks on a strategy, beside what it was decided to come to.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/programs/columns.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/log.h"

namespace troupe::programs {
namespace {

const char* name_of(Expected::Kind kind) {
  constexpr const char* kNames[] = {"equal",     "shares",  "parts", "simultaneous",
                                    "own draws", "refused", "–"};
  return kNames[static_cast<int>(kind)];
}

/// "": the cell is as it was decided.
std::string check(Column column, const Program& program, const Expected& expected,
                  const Outcome& outcome) {
  if (expected.kind == Expected::Kind::refused) {
    if (outcome.error.empty()) return "was trained, and is to be refused";
    const bool says = outcome.error.find(expected.text) != std::string::npos;
    return says ? "" : "refused with: " + outcome.error;
  }
  if (!outcome.error.empty()) return outcome.error;
  switch (expected.kind) {
    case Expected::Kind::shares:
    case Expected::Kind::parts:
      return difference(outcome.result, program.plain(shares_in(column)));
    case Expected::Kind::simultaneous:
      return difference(outcome.result, program.simultaneous({}));
    case Expected::Kind::own_draws: {
      const Outcome again = train_in(column, program);
      return again.error.empty() ? difference(again.result, outcome.result) : again.error;
    }
    default:
      return difference(outcome.result, program.plain({}));
  }
}

/// Words between commas; empty: all.
bool is_chosen(const char* variable, const std::string& name) {
  const char* const list = std::getenv(variable);
  if (list == nullptr || *list == '\0') return true;
  return ("," + std::string(list) + ",").find("," + name + ",") != std::string::npos;
}

void run_columns(const std::vector<Column>& chosen) {
  nlohmann::json cells = nlohmann::json::array();
  for (const Program& program : programs()) {
    if (!is_chosen("TROUPE_PROGRAMS", program.kind)) continue;
    for (const auto& [column, title] : columns()) {
      if (std::find(chosen.begin(), chosen.end(), column) == chosen.end()) continue;
      if (!is_chosen("TROUPE_COLUMNS", title)) continue;
      const auto exception = program.exceptions.find(column);
      const Expected expected =
          exception == program.exceptions.end() ? Expected{} : exception->second;
      if (expected.kind == Expected::Kind::absent) continue;
      const Outcome outcome = train_in(column, program);
      const std::string wrong = check(column, program, expected, outcome);
      CAPTURE(program.kind);
      CAPTURE(title);
      CHECK_MESSAGE(wrong.empty(), program.kind, ", ", title, ": ", wrong);
      cells.push_back({{"kind", program.kind},
                       {"column", title},
                       {"outcome", name_of(expected.kind)},
                       {"reason", expected.text},
                       {"holds", wrong.empty()}});
    }
  }
  if (const char* const file = std::getenv("TROUPE_PROGRAMS_JSON")) {
    std::ofstream(file, std::ios::app) << cells.dump() << "\n";
  }
}

}  // namespace
}  // namespace troupe::programs

TEST_SUITE("net") {
  using troupe::programs::Column;
  TEST_CASE("programs: alone, in parts, and as virtual replicas") {
    troupe::programs::run_columns({Column::alone, Column::accumulate, Column::virtual_alone,
                                   Column::averages, Column::replicas});
  }
  TEST_CASE("programs: on several workers") {
    troupe::programs::run_columns({Column::two_workers, Column::three_workers, Column::two_by_two,
                                   Column::gloo, Column::virtual_pair});
  }
  TEST_CASE("programs: with divided state, on servers, stopped and resumed") {
    troupe::programs::run_columns({Column::sharded, Column::servers, Column::resumed});
  }
}
