// Each cell of the table but those of elastic groups, ranks and servers as threads.
#include "tests/programs/cells.h"
#include "tests/support/test_prelude.h"

namespace troupe::programs {
namespace {

std::string in_threads(Column column, const Program& program, const Expected& expected) {
  return check(column, program, expected, train_in(column, program));
}

}  // namespace
}  // namespace troupe::programs

TEST_SUITE("net") {
  using troupe::programs::Column;
  using troupe::programs::in_threads;
  using troupe::programs::run_columns;
  TEST_CASE("programs: alone, in parts, and as virtual replicas") {
    run_columns({Column::alone, Column::accumulate, Column::virtual_alone, Column::averages,
                 Column::replicas},
                in_threads);
  }
  TEST_CASE("programs: on several workers") {
    run_columns({Column::two_workers, Column::three_workers, Column::two_by_two, Column::gloo,
                 Column::virtual_pair},
                in_threads);
  }
  TEST_CASE("programs: with divided state, on servers, stopped and resumed") {
    run_columns({Column::sharded, Column::servers, Column::resumed}, in_threads);
  }
}
