#include "tests/programs/cells.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/test_prelude.h"

namespace troupe::programs {
namespace {

const char* name_of(Expected::Kind kind) {
  constexpr const char* kNames[] = {"equal",        "shares",    "parts",
                                    "simultaneous", "own draws", "refused"};
  return kNames[static_cast<int>(kind)];
}

/// Words between commas; empty: all.
bool is_chosen(const char* variable, const std::string& name) {
  const char* const list = std::getenv(variable);
  if (list == nullptr || *list == '\0') return true;
  return ("," + std::string(list) + ",").find("," + name + ",") != std::string::npos;
}

Ranks ranks_of(Column column, const Expected& expected) {
  const bool repeats = expected.kind == Expected::Kind::own_draws && expected.text.empty();
  const bool has_several = workers_in(column) > 1 || column == Column::servers;
  return column == Column::elastic || (repeats && has_several) ? Ranks::processes : Ranks::threads;
}

/// What the plain loop comes to.
Result reference(Column column, const Program& program, const Expected& expected) {
  const detail::Autocast precision(at::kCPU, precision_in(column));
  switch (expected.kind) {
    case Expected::Kind::shares:
    case Expected::Kind::parts:
      return program.plain(shares_in(column));
    case Expected::Kind::simultaneous:
      return program.simultaneous({});
    default:
      return program.plain({});
  }
}

}  // namespace

std::string check(Column column, const Program& program, const Expected& expected,
                  const Outcome& outcome) {
  if (expected.kind == Expected::Kind::refused) {
    if (outcome.error.empty()) return "was trained, and is to be refused";
    const bool says = outcome.error.find(expected.text) != std::string::npos;
    return says ? "" : "refused with: " + outcome.error;
  }
  if (!outcome.error.empty()) return outcome.error;
  if (expected.kind == Expected::Kind::own_draws) {
    const Outcome again = train_in(column, program);
    return again.error.empty() ? difference(again.result, outcome.result, 0) : again.error;
  }
  return difference(outcome.result, reference(column, program, expected), tolerance_in(column));
}

void run_columns(const std::vector<Column>& chosen, Ranks ranks, const Judge& is_wrong) {
  nlohmann::json cells = nlohmann::json::array();
  for (const Program& program : programs()) {
    if (!is_chosen("TROUPE_PROGRAMS", program.kind)) continue;
    for (const auto& [column, title] : columns()) {
      if (std::find(chosen.begin(), chosen.end(), column) == chosen.end()) continue;
      if (!is_chosen("TROUPE_COLUMNS", title)) continue;
      const auto exception = program.exceptions.find(column);
      const Expected expected =
          exception == program.exceptions.end() ? Expected{} : exception->second;
      if (ranks_of(column, expected) != ranks) continue;
      std::optional<InFloat32> narrow;
      if (precision_in(column) != Precision::float32) narrow.emplace();
      const std::string wrong = is_wrong(column, program, expected);
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

}  // namespace troupe::programs
