// The column of an elastic group that loses a worker. In a process of its own: what computed before
// it would have threads, which a fork does not take along.
#include "tests/programs/cells.h"
#include "tests/programs/elastic_column.h"
#include "tests/support/test_prelude.h"

namespace troupe::programs {
namespace {

std::string in_processes(Column column, const Program& program, const Expected& expected) {
  return as_elastic_workers([&](const ElasticWorker& worker) -> std::string {
    const Outcome outcome = train_elastic(program, worker);
    // What is drawn is the same at every width, whoever is lost.
    if (expected.kind != Expected::Kind::own_draws || !outcome.error.empty())
      return check(column, program, expected, outcome);
    return difference(outcome.result, train_in(Column::virtual_alone, program).result);
  });
}

}  // namespace
}  // namespace troupe::programs

TEST_SUITE("net") {
  TEST_CASE("programs: in an elastic group that loses its chief and lets another worker in") {
    using troupe::programs::Column;
    troupe::programs::run_columns({Column::elastic}, troupe::programs::in_processes);
  }
}
