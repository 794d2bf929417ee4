// Each cell of the table but those of elastic groups, ranks and servers as threads.
#include "tests/programs/cells.h"
#include "tests/support/captured_log.h"
#include "tests/support/test_prelude.h"

namespace troupe::programs {
namespace {

using troupe::testing::CapturedLog;

std::string in_threads(Column column, const Program& program, const Expected& expected) {
  if (expected.kind == Expected::Kind::own_draws && !expected.text.empty()) {
    const CapturedLog log;
    const Outcome outcome = train_in(column, program);
    if (!outcome.error.empty()) return outcome.error;
    return log.has(expected.text) ? "" : "the log does not say: " + expected.text;
  }
  return check(column, program, expected, train_in(column, program));
}

}  // namespace
}  // namespace troupe::programs

TEST_SUITE("net") {
  using troupe::programs::Column;
  using troupe::programs::in_threads;
  using troupe::programs::Ranks;
  using troupe::programs::run_columns;
  TEST_CASE("programs: alone, in parts, and as virtual replicas") {
    run_columns({Column::alone, Column::accumulate, Column::virtual_alone, Column::averages,
                 Column::replicas},
                Ranks::threads, in_threads);
  }
  TEST_CASE("programs: on several workers") {
    run_columns({Column::two_workers, Column::three_workers, Column::two_by_two, Column::gloo,
                 Column::virtual_pair},
                Ranks::threads, in_threads);
  }
  TEST_CASE("programs: in bfloat16") {
    run_columns({Column::bfloat16, Column::bfloat16_pair}, Ranks::threads, in_threads);
  }
  TEST_CASE("programs: with divided state, on servers, stopped and resumed") {
    run_columns({Column::sharded, Column::servers, Column::resumed}, Ranks::threads, in_threads);
  }
}
