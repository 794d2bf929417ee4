// examples/regression/main.cpp -- the weight of newborns from a table, by train_and_evaluate: an
// estimator with an added metric, evaluations that are throttled, and the exporter that --exporter
// names.
#include "examples/regression/regression_hooks.h"
#include "troupe.h"

int main(int argc, char** argv) {
  return troupe::run_main([&] {
    RegressionOptions mine;
    const troupe::Options options = troupe::parse_options(
        argc, argv, mine.flags(),
        {"regression",
         "Predicts the weight of newborns from a table, with a wide and deep model.",
         {"--mode train_and_evaluate --model-dir births --max-steps 2000 --throttle-secs 10",
          "--mode predict --model-dir births --predict-examples 3",
          "--mode export --model-dir births"}});

    const RegressionHooks hooks(options, mine);
    troupe::JobExtras extras;
    extras.feature_names = RegressionHooks::kFeatures;
    extras.metrics = {
        troupe::added<troupe::RootMeanSquaredError>("rmse", [](const troupe::MetricInputs& inputs) {
          return std::pair{inputs.prediction("weight"), inputs.label()};
        })};
    troupe::run_job(hooks, options, extras);
  });
}
