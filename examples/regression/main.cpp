// examples/regression/main.cpp -- the weight of newborns from a table, by train_and_evaluate: an
// estimator with an added metric, evaluations that are throttled, and an exporter.
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
    const troupe::Estimator plain(hooks, {options.train, options.strategy, kFeatures, {}});
    troupe::Estimator estimator = troupe::add_metrics(
        plain, {troupe::added<troupe::RootMeanSquaredError>(
                   "rmse", [](const troupe::MetricInputs& inputs) {
                     return std::pair{inputs.prediction("weight"), inputs.label()};
                   })});

    const troupe::TrainSpec train = troupe::train_spec(options.train, options.eval);
    troupe::EvalSpec eval = troupe::eval_spec(options.eval);  // steps, throttle, ...: the flags'
    // The flag --exporter has its say; without it the exports are in <model_dir>/export/exporter.
    if (options.eval.exporters == troupe::EvalOptions().exporters) {
      eval.exporters = {troupe::make_latest_exporter("exporter", options.eval.exports_to_keep)};
    }

    troupe::run_mode(options.mode, estimator, train, eval, options.use);
  });
}
