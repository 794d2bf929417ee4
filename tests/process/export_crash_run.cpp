// Evaluates and exports one checkpoint: what export_crash_test.cpp kills at every system call.
//   export_crash_run <model directory> alone|chief|evaluator
// In the role alone it trains, as far as its listener knows, from the first checkpoint that was
// left by the process before it to the last one; the chief comes from training; the evaluator
// waits.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/export/exporter_world.h"
#include "troupe/export/exporting_job.h"
#include "troupe/report/summary_writer.h"
#include "troupe/train/evaluation/evaluator.h"

namespace {

using namespace troupe;  // NOLINT: a program of a test

class Job final : public ExportingJob {
 public:
  Job(const std::string& directory, const std::vector<std::shared_ptr<Exporter>>& exporters)
      : ExportingJob(directory, directory + "/eval", exporters),
        last_(directory + "/model.ckpt-20"),
        summaries_(directory + "/eval") {}

  [[nodiscard]] std::optional<std::string> latest_checkpoint() override { return last_; }
  [[nodiscard]] std::optional<Finished> finished() override { return std::nullopt; }
  [[nodiscard]] const std::string& last() const { return last_; }

 private:
  [[nodiscard]] Evaluation evaluate_checkpoint(const std::string& checkpoint, bool again) override {
    const std::int64_t step = std::stoll(checkpoint.substr(checkpoint.rfind('-') + 1));
    const Evaluation evaluation{step, {{"loss", 1.0 / static_cast<double>(step)}}};
    summaries_.write(step, {{"loss", static_cast<float>(evaluation.at("loss"))}}, again);
    return evaluation;
  }
  [[nodiscard]] std::function<void(const std::string&)> model_writer(
      const std::string& checkpoint, std::optional<ExportFormat> /*format*/) override {
    return [checkpoint](const std::string& to) { std::ofstream(to + "/model.pt") << checkpoint; };
  }

  const std::string last_;
  SummaryWriter summaries_;
};

void run(const std::string& directory, const std::string& role) {
  ExporterWorld world;
  world.now = [] { return 1'700'000'000 + ::getpid(); };  // no process waits for another's second
  const std::vector<std::shared_ptr<Exporter>> exporters = {
      make_latest_exporter("latest", 5, world), make_final_exporter("final", world),
      make_best_exporter("best", smaller(), 5, world)};
  const TrainingGoal goal{20, std::nullopt};
  Job job(directory, exporters);
  if (role == "evaluator") {
    EvaluatorOptions options;
    options.start_delay = Seconds(0);
    options.throttle = Seconds(0);
    options.goal = goal;
    (void)run_evaluator(job, options, steady_clock());
  } else if (role == "alone") {
    EvaluationListener listener(job, Seconds(0), goal, steady_clock());
    listener.begin();
    listener.after_save({20, job.last(), true});
    listener.end({20, job.last(), true});
  } else if (!job.is_settled(job.last())) {
    (void)evaluate_and_export(job, job.last(), [](std::int64_t) { return true; });
  }
  job.throw_if_export_failed();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // The mark in a trace after which calls are ours, not the loader's.
  static_cast<void>(::access("/export-crash-run-starts", F_OK));
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
