// A program whose step is wrong in the way that --wrong names. With one replica most of them train
// rightly, or seem to.
#include "tests/process/trainings.h"
#include "tests/support/tiny_hooks.h"
#include "troupe/cli/options.h"
#include "troupe/cli/run_main.h"
#include "troupe/estimator/job.h"

class WrongHooks final : public troupe::testing::TinyHooks {
 public:
  explicit WrongHooks(std::string wrong) : wrong_(std::move(wrong)) {}

  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    if (wrong_ == "throws" && replica.place().index == 1) {
      throw std::runtime_error("the hook of rank 1 gave up");
    }
    const auto loss = forward(replica, batch);
    const auto y = replica.model<torch::nn::LinearImpl>().forward(batch.fields[0]);
    const auto mean = replica.loss("squared_error")(y, batch.fields[1]).mean();
    if (wrong_ == "local-mean") {
      replica.apply_gradients(mean);
      return mean;
    }
    if (wrong_ == "result") {
      replica.apply_gradients(loss);
      return mean;
    }
    if (wrong_ == "own-step") {
      loss.backward();
      replica.optimizer().step();
      return loss;
    }
    if (replica.place().index == 1 && replica.progress().step == 2) {
      if (wrong_ == "throws-range") (void)std::map<int, int>().at(1);
      if (wrong_ == "throws-lines") throw std::runtime_error("two lines\nof text\n");
      if (wrong_ == "throws-number") throw 42;
    }
    if (wrong_ == "shapes") (void)torch::mm(batch.fields[0], torch::ones({3, 3}));
    if (wrong_ != "nothing-applied") replica.apply_gradients(loss);
    if (wrong_ == "weight-by-rank" && ++steps_ == 5 && replica.place().index == 1) {
      const torch::NoGradGuard no_grad;
      replica.parameters()[0].second.add_(1e-3);
    }
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    if (wrong_ == "validation") (void)torch::mm(batch.fields[0], torch::ones({3, 3}));
    return TinyHooks::validation_step(replica, batch);
  }
  [[nodiscard]] troupe::StepResult test_step(troupe::Replica& replica,
                                             const troupe::Batch& batch) const override {
    if (wrong_ == "test") throw std::runtime_error("the test data has no labels");
    return TinyHooks::validation_step(replica, batch);
  }
  [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                 const troupe::Batch& batch) const override {
    if (wrong_ == "predict") (void)torch::mm(batch.fields[0], torch::ones({3, 3}));
    if (wrong_ == "no-predict") return Hooks::predict_step(replica, batch);
    return TinyHooks::predict_step(replica, batch);
  }

 private:
  std::string wrong_;
  mutable int steps_ = 0;  // of this worker's one replica
};

int wrong_hook(int argc, char** argv) {
  return troupe::run_main([&] {
    std::string wrong;
    troupe::Options options =
        troupe::parse_options(argc, argv, {troupe::flag("wrong", &wrong, "what is wrong")});
    options.train.batch_size = 4;
    troupe::run_job(WrongHooks(wrong), options);
  });
}
