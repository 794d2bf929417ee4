// The cells whose workers are processes. In a process of its own: what computed before it would
// have threads, which a fork does not take along.
#include "tests/programs/processes.h"

#include "tests/programs/cells.h"
#include "tests/support/test_prelude.h"

namespace troupe::programs {
namespace {

/// What is drawn with virtual replicas is the same at every width, whoever is lost.
std::string difference_from_alone(const Result& result, const Program& program) {
  return difference(result, train_in(Column::virtual_alone, program).result, 1e-9);
}

std::string in_elastic_group(Column column, const Program& program, const Expected& expected) {
  return as_elastic_workers([&](const ElasticWorker& worker) -> std::string {
    const Outcome outcome = train_elastic(program, worker);
    if (expected.kind != Expected::Kind::own_draws || !outcome.error.empty())
      return check(column, program, expected, outcome);
    return difference_from_alone(outcome.result, program);
  });
}

/// Trains twice: what is drawn is repeatable.
std::string in_processes(Column column, const Program& program, const Expected& /*expected*/) {
  const std::vector<std::vector<Stage>> trainings = {stages_of(column, program),
                                                     stages_of(column, program)};
  return as_processes(trainings.front().front().processes, [&](int process) -> std::string {
    std::vector<Result> results(trainings.size());
    try {
      for (std::size_t i = 0; i < trainings.size(); ++i) {
        for (const Stage& stage : trainings[i]) stage.run(process, results[i]);
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    if (process > 0) return "";
    const std::string other = difference(results[1], results[0], 0);
    if (!other.empty() || column != Column::virtual_pair) return other;
    return difference_from_alone(results[0], program);
  });
}

}  // namespace
}  // namespace troupe::programs

TEST_SUITE("net") {
  using troupe::programs::Column;
  TEST_CASE("programs: in an elastic group that loses its chief and lets another worker in") {
    troupe::programs::run_columns({Column::elastic}, troupe::programs::Ranks::processes,
                                  troupe::programs::in_elastic_group);
  }
  TEST_CASE("programs: what hooks draw on several workers is repeatable") {
    troupe::programs::run_columns(
        {Column::two_workers, Column::three_workers, Column::gloo, Column::virtual_pair,
         Column::bfloat16_pair, Column::sharded, Column::servers, Column::resumed},
        troupe::programs::Ranks::processes, troupe::programs::in_processes);
  }
}
