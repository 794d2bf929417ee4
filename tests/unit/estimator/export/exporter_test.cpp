
#include <limits>

#include "tests/support/caught.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/export/export_samples.h"
#include "troupe/core/error.h"
#include "troupe/export/exporter_world.h"

using namespace troupe;
using namespace troupe::testing;
using Names = std::set<std::string>;

TEST_SUITE("export") {
  TEST_CASE("exporter: keeping no exports is refused") {
    const auto positive = [](const auto& make, const std::string& number) {
      try {
        static_cast<void>(make());
        FAIL("accepted");
      } catch (const ConfigError& error) {
        CHECK(has(error.what(), "positive number"));
        CHECK(has(error.what(), number));
      }
    };
    positive([] { return make_latest_exporter("latest", 0); }, "keep 0");
    positive([] { return make_latest_exporter("latest", -3); }, "keep -3");
    positive([] { return make_best_exporter("best", smaller(), 0); }, "keep 0");
    CHECK_NOTHROW(make_latest_exporter("latest", 1));
    CHECK_NOTHROW(make_latest_exporter("latest", std::nullopt));
    CHECK_NOTHROW(make_best_exporter("best", smaller(), std::nullopt));
  }

  TEST_CASE("exporter: a name that is no file name is refused") {
    for (const char* name : {"", ".", "..", "a/b", "../a", "a b", "/a", ".hidden"}) {
      CHECK_THROWS_AS(make_latest_exporter(name), ConfigError);
      CHECK_THROWS_AS(make_final_exporter(name), ConfigError);
      CHECK_THROWS_AS(make_best_exporter(name), ConfigError);
    }
    CHECK(make_latest_exporter("latest_2.b-c")->name() == "latest_2.b-c");
    CHECK(make_final_exporter("final")->name() == "final");
    CHECK(make_best_exporter()->name() == "best");
  }

  TEST_CASE("exporter: a list with a null, a bad name or a name twice is refused") {
    class Named final : public Exporter {
     public:
      [[nodiscard]] const std::string& name() const override { return name_; }
      std::optional<std::string> offer(const ExportOffer&) override { return std::nullopt; }

     private:
      std::string name_ = "../elsewhere";
    };
    CHECK_NOTHROW(validate({}));
    CHECK_NOTHROW(validate({make_latest_exporter("a"), make_final_exporter("b")}));
    CHECK_THROWS_AS(validate({make_latest_exporter("a"), nullptr}), ConfigError);
    CHECK_THROWS_AS(validate({std::make_shared<Named>()}), ConfigError);
    try {
      validate({make_latest_exporter("a"), make_final_exporter("b"), make_final_exporter("a")});
      FAIL("accepted");
    } catch (const ConfigError& error) {
      CHECK(has(error.what(), "two exporters are named 'a'"));
    }
  }

  TEST_CASE("latest exporter: every offer is exported, the newest are kept over all runs") {
    const TempDir directory;
    const auto base = directory / "export/latest";
    write_text(base / "1600000000" / "model.pt", "of an earlier run");
    const auto time = std::make_shared<FakeTime>();
    const auto exporter = make_latest_exporter("latest", 2, world_of(time));
    // The losses get worse, and exports come within a second: neither matters.
    CHECK(exporter->offer(offer_of(base, 100, 0.1)) == (base / "1700000000").string());
    CHECK(names_in(base) == Names{"1600000000", "1700000000"});
    CHECK(exporter->offer(offer_of(base, 200, 0.2)) == (base / "1700000001").string());
    CHECK(names_in(base) == Names{"1700000000", "1700000001"});
    CHECK(read_text(base / "1700000001" / "model.pt") == "model of step 200");
  }

  TEST_CASE("exporter: a checkpoint that is offered again is exported once") {
    for (const auto& make :
         {+[](ExporterWorld world) { return make_latest_exporter("e", 5, std::move(world)); },
          +[](ExporterWorld world) { return make_final_exporter("e", std::move(world)); }}) {
      const TempDir directory;
      ExportOffer offer = offer_of(directory.path(), 100, 0.5);
      offer.checkpoint_digest = "one";
      offer.is_final = true;
      const auto time = std::make_shared<FakeTime>();
      const auto path = make(world_of(time))->offer(offer);
      CHECK(make(world_of(time))->offer(offer) == path);  // by a process after a kill
      CHECK(names_in(directory.path()) == Names{"1700000000"});
      // Another training that reached the same step has another checkpoint there.
      offer.checkpoint_digest = "another";
      CHECK(make(world_of(time))->offer(offer) != path);
      CHECK(names_in(directory.path()).size() == 2);
    }
  }

  TEST_CASE("exporter: an export says which evaluation it followed") {
    const TempDir directory;
    ExportOffer offer = offer_of(directory.path(), 100, 0.1 + 0.2);
    offer.checkpoint_digest = "abc";
    make_latest_exporter("e", 5, world_of(std::make_shared<FakeTime>()))->offer(offer);
    PosixFileSystem files(directory.path().string());
    REQUIRE(exports_in(files) == std::vector<std::string>{"1700000000"});
    const auto record = read_export_record(files, "1700000000");
    REQUIRE(record);
    CHECK(record->checkpoint_digest == "abc");
    CHECK(record->evaluation.global_step == 100);
    CHECK(record->evaluation.at("loss") == 0.1 + 0.2);
    write_text(directory / "1700000000/evaluation.json", "{}");
    const Silence silence;
    CHECK_FALSE(read_export_record(files, "1700000000"));
  }

  TEST_CASE("latest exporter: without a number to keep all stay") {
    const TempDir directory;
    const auto exporter =
        make_latest_exporter("latest", std::nullopt, world_of(std::make_shared<FakeTime>()));
    for (int step = 0; step < 8; ++step) exporter->offer(offer_of(directory.path(), step, 0.5));
    CHECK(names_in(directory.path()).size() == 8);
  }

  TEST_CASE("exporter: without a test's world the machine's clock names the export") {
    const TempDir directory;
    for (const auto& exporter : {make_latest_exporter("latest"), make_best_exporter()}) {
      const std::int64_t before = wall_seconds();
      ExportOffer offer = offer_of(directory / exporter->name(), 100, 0.5);
      offer.evaluation_directory = (directory / "eval").string();
      const auto path = exporter->offer(offer);
      REQUIRE(path);
      const std::int64_t named = std::stoll(std::filesystem::path(*path).filename().string());
      CHECK(before > kFirstSecond);
      CHECK(named >= before);
      CHECK(named <= wall_seconds());
    }
  }

  TEST_CASE("final exporter: only the final checkpoint is exported, of others nothing is made") {
    const TempDir directory;
    const auto base = directory / "export/final";
    const auto exporter = make_final_exporter("final", world_of(std::make_shared<FakeTime>()));
    ExportOffer offer = offer_of(base, 100, 0.5);
    int written = 0;
    offer.write_model = [&](const std::string&) { ++written; };
    CHECK_FALSE(exporter->offer(offer));
    CHECK(written == 0);
    CHECK(names_in(directory.path()).empty());
    offer.is_final = true;
    CHECK(exporter->offer(offer) == (base / "1700000000").string());
    CHECK(written == 1);
    CHECK(names_in(base) == Names{"1700000000"});
  }

  TEST_CASE("comparison: strictly smaller and strictly larger, of the metric that is named") {
    const auto loss = [](double value) { return Evaluation{1, {{"a", 7.0}, {"loss", value}}}; };
    CHECK(smaller()(loss(0.5), loss(0.4)));
    CHECK_FALSE(smaller()(loss(0.5), loss(0.5)));
    CHECK_FALSE(smaller()(loss(0.5), loss(0.6)));
    CHECK(larger("loss")(loss(0.5), loss(0.6)));
    CHECK_FALSE(larger("loss")(loss(0.5), loss(0.5)));
    CHECK_FALSE(larger("loss")(loss(0.5), loss(0.4)));
    CHECK_FALSE(smaller("a")(loss(0.5), loss(0.4)));
  }

  TEST_CASE("comparison: the metric itself says which way is better") {
    using troupe::Better;
    const auto made = [](double accuracy, Better better) {
      return Evaluation{1, {{"accuracy", accuracy}}, {{"accuracy", better}}};
    };
    const std::function<bool(const Evaluation&, const Evaluation&)> by_itself =
        troupe::better("accuracy");
    CHECK_THROWS_WITH_AS((void)by_itself(made(0.5, Better::unknown), made(0.6, Better::unknown)),
                         doctest::Contains("give --best-mode min or max"), troupe::ConfigError);
    CHECK(by_itself(made(0.5, Better::higher), made(0.6, Better::higher)));
    CHECK_FALSE(by_itself(made(0.6, Better::higher), made(0.5, Better::higher)));
    // What was read from a file does not say it; one that does has said it for all.
    const Evaluation from_file{1, {{"accuracy", 0.7}}};
    CHECK(by_itself(from_file, Evaluation{2, {{"accuracy", 0.8}}}));
    const std::function<bool(const Evaluation&, const Evaluation&)> lower =
        troupe::better("accuracy");
    CHECK(lower(made(0.5, Better::lower), made(0.4, Better::lower)));
    // Of the flags: unset, as the metric says.
    CHECK(troupe::EvalOptions().best.better == troupe::Better::unknown);
  }

  TEST_CASE("comparison: NaN beats nothing, every number beats NaN") {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const auto loss = [](double value) { return Evaluation{1, {{"loss", value}}}; };
    for (const std::function<bool(const Evaluation&, const Evaluation&)>& is_better :
         {smaller(), larger("loss")}) {
      for (const double number : {0.5, -kInf, kInf}) {
        CHECK(is_better(loss(kNaN), loss(number)));
        CHECK_FALSE(is_better(loss(number), loss(kNaN)));
      }
      CHECK_FALSE(is_better(loss(kNaN), loss(kNaN)));
    }
  }
}
