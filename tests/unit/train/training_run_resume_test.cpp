// Loops that do more than train: crashed at every moment and started again, they end as they would
// have without, bit for bit.
#include <limits>

#include "tests/support/torch_prelude.h"
#include "tests/unit/train/loop_runs.h"

using namespace troupe::testing;  // NOLINT
using troupe::TrainingRun;

namespace {

void clip(const troupe::TrainState& state, double limit) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, weight] : state.replicas[0]->parameters()) weight.clamp_(-limit, limit);
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("run: resumed at any moment equals uninterrupted") {
    // Four steps and a validation, three times.
    CHECK(check_resumes([](TrainingRun& run, Program& program) {
            for (auto& epoch : run.epochs()) {
              for (const auto& batch : epoch) {
                run.train_step(batch);
                program.moment();
              }
              (void)run.validate();
              program.moment();
            }
          }) == 15);
  }

  TEST_CASE("run: a body that clips weights resumes exactly") {
    (void)check_resumes([](TrainingRun& run, Program& program) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          run.train_step(batch);
          program.moment();
          clip(program.state, 0.2);
          program.moment();
        }
      }
    });
  }

  TEST_CASE("run: a body that draws random numbers resumes exactly") {
    (void)check_resumes([](TrainingRun& run, Program& program) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          run.train_step(batch);
          program.moment();
          const torch::NoGradGuard no_grad;
          for (auto& [name, weight] : program.state.replicas[0]->parameters()) {
            weight.add_(torch::randn_like(weight), 0.01);
          }
        }
        (void)run.validate();
      }
    });
  }

  TEST_CASE("run: what a body keeps, and what follows from it, resumes exactly") {
    (void)check_resumes([](TrainingRun& run, Program& program) {
      double& best = run.keep("best", std::numeric_limits<double>::infinity());
      double& limit = run.keep("limit", 0.1);
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          // Two step functions in turn.
          const bool clean = batch.step % 2 == 0;
          run.step(batch, [&](troupe::Replica& replica, const troupe::Batch& own) {
            if (clean) return program.hooks.train_step(replica, own);
            troupe::Batch noisy = own;
            noisy.fields[0] = own.fields[0] + limit * torch::randn_like(own.fields[0]);
            const auto result = program.hooks.train_step(replica, noisy);
            return troupe::StepResult{{"noisy", result.losses.front().second}};
          });
          clip(program.state, limit * 3);
          best = std::min(best, run.losses().front().second);
          program.moment();
        }
        limit *= run.validate()->losses.front().second < best ? 1.25 : 0.75;
        program.moment();
      }
    });
  }

  TEST_CASE("run: a body that leaves epochs by break resumes exactly") {
    (void)check_resumes([](TrainingRun& run, Program& program) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          run.train_step(batch);
          program.moment();
          if (epoch.number() != 1 && batch.step == 2) break;
        }
        (void)run.validate();
        program.moment();
      }
    });
  }

  TEST_CASE("run: a body that skips batches resumes exactly") {
    (void)check_resumes([](TrainingRun& run, Program& program) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          program.moment();
          if (batch.step == epoch.number() || batch.step == 3) continue;
          run.train_step(batch);
          program.moment();
        }
        (void)run.validate();
      }
    });
  }

  TEST_CASE("run: a body that ends training resumes exactly") {
    SUBCASE("by stop") {
      (void)check_resumes([](TrainingRun& run, Program& program) {
        for (auto& epoch : run.epochs()) {
          for (const auto& batch : epoch) {
            run.train_step(batch);
            if (run.step_number() == 7) run.stop("seven are enough");
            program.moment();
          }
        }
      });
    }
    SUBCASE("by break of both loops") {
      (void)check_resumes([](TrainingRun& run, Program& program) {
        double& seen = run.keep("seen", 0);
        for (auto& epoch : run.epochs()) {
          for (const auto& batch : epoch) {
            run.train_step(batch);
            seen += 1;
            program.moment();
            if (seen == 7) break;
          }
          if (seen == 7) break;
        }
      });
    }
  }

  TEST_CASE("run: a loop over the data itself starts where the state stands, and resumes exactly") {
    (void)check_resumes([](TrainingRun& run, Program& program) {
      auto place = program.state.position;
      for (; !run.is_over() && place.epoch < 5; place = {place.epoch + 1, 0}) {
        for (const auto& batch : program.data.train->epoch(place.epoch, place.step)) {
          run.train_step(batch);
          program.moment();
        }
      }
    });
  }
}
