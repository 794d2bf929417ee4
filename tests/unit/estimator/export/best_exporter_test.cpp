#include <cmath>
#include <utility>

#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/export/export_samples.h"
#include "troupe/core/error.h"
#include "troupe/export/export_directory.h"
#include "troupe/export/exporter.h"

using namespace troupe;
using namespace troupe::testing;
using Names = std::set<std::string>;

namespace {

/// A process's exporter.
struct Process {
  explicit Process(const TempDir& at,
                   std::function<bool(const Evaluation&, const Evaluation&)> is_better = smaller(),
                   std::optional<int> keep = 5)
      : base(at / "export/best"),
        exporter(make_best_exporter("best", std::move(is_better), keep, world_of(time))) {}

  /// Whether the evaluation was exported.
  bool offer(std::int64_t step, double loss) {
    return exporter->offer(offer_of(base, step, loss)).has_value();
  }
  [[nodiscard]] std::int64_t recorded_step() const {
    PosixFileSystem files(base.string());
    const auto record = read_best(files);
    return record ? record->evaluation.global_step : -1;
  }

  std::filesystem::path base;
  std::shared_ptr<FakeTime> time = std::make_shared<FakeTime>();
  std::shared_ptr<Exporter> exporter;
};

}  // namespace

TEST_SUITE("export") {
  TEST_CASE("best exporter: losses 0.5, 0.6, 0.4 are exported, not, exported") {
    const TempDir directory;
    Process process(directory);
    CHECK(process.offer(100, 0.5));
    CHECK(process.recorded_step() == 100);
    CHECK(names_in(process.base) == Names{"1700000000", "best.json"});
    CHECK_FALSE(process.offer(200, 0.6));
    CHECK(process.recorded_step() == 100);
    CHECK(names_in(process.base) == Names{"1700000000", "best.json"});
    CHECK(process.offer(300, 0.4));
    CHECK(names_in(process.base) == Names{"1700000000", "1700000001", "best.json"});
    CHECK(read_text(process.base / "1700000001/model.pt") == "model of step 300");
    PosixFileSystem files(process.base.string());
    CHECK(read_best(files)->export_name == "1700000001");
    CHECK(read_best(files)->evaluation.at("loss") == 0.4);
  }

  // Upstream: the first evaluation of a process is exported whatever came before.
  TEST_CASE("best exporter: a new process goes on with best.json") {
    const TempDir directory;
    CHECK(Process(directory).offer(100, 0.5));
    Process next(directory);
    next.time->now += 60;
    SUBCASE("and exports nothing worse") {
      CHECK_FALSE(next.offer(200, 0.6));
      CHECK_FALSE(next.offer(300, 0.5));
      CHECK(names_in(next.base) == Names{"1700000000", "best.json"});
    }
    SUBCASE("nor the same checkpoint, evaluated again") { CHECK_FALSE(next.offer(100, 0.5)); }
    SUBCASE("and exports what is better") {
      CHECK(next.offer(200, 0.4));
      CHECK(next.recorded_step() == 200);
    }
  }

  TEST_CASE("best exporter: where a lost process has exported a checkpoint is what it returns") {
    const TempDir directory;
    Process lost(directory);
    ExportOffer offer = offer_of(lost.base, 100, 0.5);
    offer.checkpoint_digest = "digest";
    const auto path = lost.exporter->offer(offer);
    REQUIRE(path);
    Process next(directory);
    const troupe::testing::CapturedLog log;
    CHECK(next.exporter->offer(offer) == path);
    CHECK(log.has("step 100 is in '" + *path + "' (again)"));  // the lost one may not have said so
    CHECK(names_in(next.base) == Names{"1700000000", "best.json"});
    offer.checkpoint_digest = "another's";
    CHECK_FALSE(next.exporter->offer(offer));
  }

  TEST_CASE("best exporter: a process that ended before best.json was written loses nothing") {
    const TempDir directory;
    Process killed(directory);
    CHECK(killed.offer(100, 0.5));
    const std::string before = read_text(killed.base / "best.json");
    CHECK(killed.offer(200, 0.3));
    SUBCASE("with the record of the export before it") {
      write_text(killed.base / "best.json", before);
    }
    SUBCASE("with none") { std::filesystem::remove(killed.base / "best.json"); }
    SUBCASE("with a damaged one") { write_text(killed.base / "best.json", "{\"step\": 1"); }
    const Silence silence;
    Process next(directory);
    next.time->now += 60;
    CHECK_FALSE(next.offer(200, 0.3));
    CHECK(next.recorded_step() == 200);
    CHECK_FALSE(next.offer(300, 0.4));
    CHECK(next.offer(400, 0.2));
  }

  TEST_CASE(
      "best exporter: a metric that evaluations lack, or a model without a trace, is known before "
      "training") {
    const TempDir directory;
    const auto written = [] {};
    const auto evaluate = [] { return Evaluation{0, {{"loss", 1.0}}}; };
    CHECK_THROWS_AS(make_best_exporter("best", larger("accuracy"))->check(written, evaluate),
                    ConfigError);
    CHECK_NOTHROW(make_best_exporter()->check(written, evaluate));
    const auto refused = [] { throw ConfigError("it cannot be traced.", ""); };
    for (const auto& exporter :
         {make_best_exporter(), make_latest_exporter("l"), make_final_exporter("f")}) {
      CHECK_THROWS_AS(exporter->check(refused, evaluate), ConfigError);
    }
  }

  TEST_CASE(
      "best exporter: a metric that the evaluation lacks is an error, and nothing is written") {
    const TempDir directory;
    Process process(directory, larger("accuracy"));
    ExportOffer offer = offer_of(process.base, 400, 0.2);
    int written = 0;
    offer.write_model = [&](const std::string&) { ++written; };
    try {
      process.exporter->offer(offer);
      FAIL("accepted");
    } catch (const ConfigError& error) {
      CHECK(has(error.what(), "accuracy"));
      CHECK(has(error.what(), "loss"));
    }
    CHECK(written == 0);
  }

  TEST_CASE("best exporter: a record without the metric counts as none") {
    const TempDir directory;
    CHECK(Process(directory).offer(100, 0.5));
    Process next(directory, larger("accuracy"));
    ExportOffer offer = offer_of(next.base, 200, 0.9);
    offer.evaluation.metrics.emplace_back("accuracy", 0.1);
    CHECK(next.exporter->offer(offer));
  }

  TEST_CASE("best exporter: NaN is beaten by every number and beats none") {
    const TempDir directory;
    CHECK(Process(directory).offer(100, std::nan("")));
    Process next(directory);
    CHECK_FALSE(next.offer(200, std::nan("")));
    CHECK(next.offer(300, 1e30));
    CHECK_FALSE(next.offer(400, std::nan("")));
    CHECK(next.recorded_step() == 300);
  }

  TEST_CASE("best exporter: the newest are kept, best.json and the rest stay") {
    const TempDir directory;
    Process process(directory, smaller(), 2);
    write_text(process.base / "notes", "mine");
    for (int step = 1; step <= 4; ++step) CHECK(process.offer(step, 1.0 / step));
    CHECK(names_in(process.base) == Names{"1700000002", "1700000003", "best.json", "notes"});
  }

  TEST_CASE("best exporter: when writing the model fails, the best is as before") {
    const TempDir directory;
    Process process(directory);
    CHECK(process.offer(100, 0.5));
    ExportOffer offer = offer_of(process.base, 200, 0.1);
    offer.write_model = [](const std::string&) { throw DataError("no examples.", "give some."); };
    CHECK_THROWS_AS(process.exporter->offer(offer), DataError);
    CHECK(process.recorded_step() == 100);
    CHECK(process.offer(300, 0.4));
  }

  TEST_CASE(
      "best exporter: when writing best.json fails, a repeated offer writes it, once exported") {
    const TempDir directory;
    Process process(directory);
    ExportOffer offer = offer_of(process.base, 100, 0.5);
    offer.checkpoint_digest = "one";
    std::filesystem::create_directories(process.base / "best.json/in the way");
    const Silence silence;
    CHECK_THROWS_AS(process.exporter->offer(offer), EnvironmentError);
    std::filesystem::remove_all(process.base / "best.json");
    CHECK(process.exporter->offer(offer));
    CHECK(process.recorded_step() == 100);
    CHECK(names_in(process.base) == Names{"1700000000", "best.json"});
  }

  TEST_CASE("best exporter: no comparison is refused") {
    CHECK_THROWS_AS(make_best_exporter("best", nullptr), ConfigError);
  }
}
