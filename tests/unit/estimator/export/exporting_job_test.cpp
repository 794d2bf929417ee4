// What stays on record between processes, and what a failing exporter does to the others.
#include "troupe/export/exporting_job.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/export/export_samples.h"
#include "troupe/core/failure.h"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Fails as often as it is told to.
class Fragile final : public Exporter {
 public:
  explicit Fragile(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  std::optional<std::string> offer(const ExportOffer&) override {
    ++offers;
    if (failures-- > 0) throw EnvironmentError("the disk is full.", "free some space.");
    return "path";
  }
  int failures = 0;
  int offers = 0;

 private:
  std::string name_;
};

/// A process that evaluates checkpoints of a directory.
class Job final : public ExportingJob {
 public:
  Job(const TempDir& dir, const std::vector<std::shared_ptr<Exporter>>& exporters,
      const std::string& name = "eval")
      : ExportingJob(dir.path().string(), (dir / name).string(), exporters) {}
  std::optional<std::string> latest_checkpoint() override { return std::nullopt; }
  std::optional<Finished> finished() override { return std::nullopt; }

  std::function<void()> during_evaluation = [] {};
  bool is_repeated = false;  // the last evaluation

 private:
  Evaluation evaluate_checkpoint(const std::string& checkpoint, bool again) override {
    is_repeated = again;
    during_evaluation();
    return {std::stoll(checkpoint.substr(checkpoint.rfind('-') + 1)), {{"loss", 0.5}}};
  }
  std::function<void(const std::string&)> model_writer(const std::string&,
                                                       std::optional<ExportFormat>) override {
    return nullptr;
  }
};

std::string checkpoint(const TempDir& dir, int step, const std::string& content = "weights") {
  write_text(dir / text("model.ckpt-", step) / "manifest.json", content);
  return (dir / text("model.ckpt-", step)).string();
}

void evaluate(Job& job, const std::string& checkpoint, bool is_final) {
  (void)evaluate_and_export(job, checkpoint, [&](std::int64_t) { return is_final; });
}

}  // namespace

TEST_SUITE("export") {
  TEST_CASE("exporting job: what is settled is so for the next process, too") {
    const TempDir dir;
    const auto one = std::make_shared<Fragile>("one");
    const std::vector<std::shared_ptr<Exporter>> exporters = {one};
    const std::string last = checkpoint(dir, 20);
    Job job(dir, exporters);
    CHECK_FALSE(job.is_settled(last));
    evaluate(job, last, false);
    CHECK_FALSE(job.is_settled(last));  // it was not the final one
    CHECK_FALSE(job.left_undone());
    evaluate(job, last, true);
    CHECK(Job(dir, exporters).is_settled(last));
    SUBCASE("and what it came to") {
      const EvaluationRound round = Job(dir, exporters).settled();
      CHECK(round.checkpoint == last);
      CHECK(round.evaluation.global_step == 20);
      CHECK(
          (round.evaluation.metrics == std::vector<std::pair<std::string, double>>{{"loss", 0.5}}));
      CHECK((round.exports == std::vector<std::optional<std::string>>{"path"}));
      CHECK(round.is_final);
    }
    SUBCASE("not for another evaluation's name") {
      CHECK_FALSE(Job(dir, exporters, "eval_other").is_settled(last));
    }
    SUBCASE("not with another exporter") {
      const std::vector<std::shared_ptr<Exporter>> more = {one, std::make_shared<Fragile>("two")};
      CHECK_FALSE(Job(dir, more).is_settled(last));
    }
    SUBCASE("not if another training has reached the step") {
      checkpoint(dir, 20, "other weights");
      CHECK_FALSE(Job(dir, exporters).is_settled(last));
    }
    SUBCASE("not with a damaged record") {
      const Silence silence;
      write_text(dir / "eval/evaluated.json", "{");
      CHECK_FALSE(Job(dir, exporters).is_settled(last));
      CHECK_FALSE(Job(dir, exporters).left_undone());
    }
  }

  TEST_CASE("exporting job: what a process left undone is known until it is done") {
    const TempDir dir;
    const std::vector<std::shared_ptr<Exporter>> exporters = {std::make_shared<Fragile>("one")};
    const std::string last = checkpoint(dir, 20);
    Job killed(dir, exporters);
    killed.during_evaluation = [] { throw std::runtime_error("killed"); };
    CHECK_THROWS(evaluate(killed, last, true));
    Job next(dir, exporters);
    CHECK_FALSE(next.is_settled(last));
    CHECK(next.left_undone() == last);
    SUBCASE("and is done") {
      evaluate(next, last, false);
      CHECK(next.is_repeated);
      CHECK_FALSE(next.left_undone());
      CHECK(next.evaluated_step() == 20);
      evaluate(next, checkpoint(dir, 30, "other weights"), false);
      CHECK_FALSE(next.is_repeated);
    }
    SUBCASE("nothing if its checkpoint is gone") {
      std::filesystem::remove_all(last);
      CHECK_FALSE(next.left_undone());
    }
    SUBCASE("nothing if it is another one by now") {
      checkpoint(dir, 20, "other weights");
      CHECK_FALSE(next.left_undone());
    }
  }

  TEST_CASE("exporting job: what a process has evaluated, the next one evaluates again") {
    const TempDir dir;
    const std::vector<std::shared_ptr<Exporter>> exporters = {std::make_shared<Fragile>("one")};
    const std::string last = checkpoint(dir, 20);
    Job former(dir, exporters);
    evaluate(former, last, false);
    CHECK_FALSE(former.is_repeated);
    Job next(dir, exporters);
    evaluate(next, last, false);
    CHECK(next.is_repeated);
    checkpoint(dir, 20, "other weights");
    evaluate(next, last, false);
    CHECK_FALSE(next.is_repeated);
  }

  TEST_CASE("exporting job: an exporter that fails ends neither the others nor training") {
    const TempDir dir;
    const auto bad = std::make_shared<Fragile>("bad");
    const auto good = std::make_shared<Fragile>("good");
    const std::vector<std::shared_ptr<Exporter>> exporters = {bad, good};
    bad->failures = 1;
    Job job(dir, exporters);
    const CapturedLog log;
    evaluate(job, checkpoint(dir, 10), false);
    CHECK(good->offers == 1);
    CHECK(log.has("the exporter 'bad' failed at step 10"));
    CHECK(job.left_undone() == (dir / "model.ckpt-10").string());
    SUBCASE("its process ends with an error that names it") {
      evaluate(job, checkpoint(dir, 20), true);
      CHECK(bad->offers == 2);
      CHECK_THROWS_WITH_AS(job.throw_if_export_failed(), doctest::Contains("'bad' at step 10"),
                           ExportError);
      CHECK_THROWS_WITH(job.throw_if_export_failed(), doctest::Contains("the disk is full"));
      CHECK_THROWS_WITH(job.throw_if_export_failed(), doctest::Contains("--mode export"));
      try {
        job.throw_if_export_failed();
      } catch (const ExportError& error) {
        CHECK(error.exit_code() == 1);
      }
      CHECK(job.is_settled((dir / "model.ckpt-20").string()));
    }
    SUBCASE("the last checkpoint's is made good by the same command") {
      bad->failures = 1;
      const std::string last = checkpoint(dir, 20);
      evaluate(job, last, true);
      CHECK_THROWS_WITH(job.throw_if_export_failed(), doctest::Contains("same command again"));
      CHECK_FALSE(job.is_settled(last));
      Job next(dir, exporters);
      evaluate(next, last, true);
      CHECK(next.is_settled(last));
      CHECK_NOTHROW(next.throw_if_export_failed());
    }
    SUBCASE("the same checkpoint's repetition makes it good") {
      evaluate(job, checkpoint(dir, 10), true);
      CHECK_NOTHROW(job.throw_if_export_failed());
    }
  }

  TEST_CASE("exporting job: a checkpoint that cannot be read is the caller's business") {
    class Vanished final : public Exporter {
     public:
      [[nodiscard]] const std::string& name() const override { return name_; }
      std::optional<std::string> offer(const ExportOffer&) override {
        throw CheckpointError("it is gone.", "");
      }

     private:
      std::string name_ = "vanished";
    };
    const TempDir dir;
    const std::vector<std::shared_ptr<Exporter>> exporters = {std::make_shared<Vanished>()};
    Job job(dir, exporters);
    CHECK_THROWS_AS(evaluate(job, checkpoint(dir, 10), true), CheckpointError);
  }
}
