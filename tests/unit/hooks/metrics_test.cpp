#include "troupe/hooks/metrics.h"

#include <cmath>

#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"
#include "troupe/hooks/losses.h"

using troupe::MetricSet;

TEST_SUITE("hooks") {
  TEST_CASE("losses: one that every second step returns is the mean over those steps") {
    const auto loss = [](const char* name, double value) {
      troupe::StepResult result;
      result.losses.emplace_back(name, torch::tensor(value));
      return result;
    };
    troupe::detail::LossMeter meter;
    // Two replicas; their parts of the global mean are to be added up.
    meter.add({loss("critic", 1.0), loss("critic", 2.0)}, 8);
    meter.add({loss("generator", 0.5), loss("generator", 0.25)}, 4);
    meter.add({loss("critic", 2.0), loss("critic", 3.0)}, 8);
    const auto sums = meter.sums();
    REQUIRE(sums.size() == 2);
    CHECK(meter.examples() == 20);
    CHECK(sums[0].weight == 16);
    CHECK(sums[0].mean() == 4.0);
    CHECK(sums[1].weight == 4);
    CHECK(sums[1].mean() == 0.75);
    troupe::detail::LossMeter again;
    again.restore(sums, meter.examples());
    again.add({loss("generator", 1.5)}, 4);
    CHECK(again.sums()[1].weight == 8);
    CHECK(again.sums()[1].total == 9.0);
    CHECK(again.examples() == 24);
  }

  TEST_CASE("metrics: accuracy counts whole examples") {
    MetricSet set;
    set.add<troupe::Accuracy>("accuracy");
    set.at("accuracy")
        .update(torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {0.3, 0.7}}), torch::tensor({1, 0, 0}));
    const auto value = set.compute().front();
    CHECK(value.value == doctest::Approx(2.0 / 3));
    CHECK(value.sums[0] == std::pair<std::string, double>("correct", 2));
    CHECK(value.sums[1] == std::pair<std::string, double>("examples", 3));
  }

  TEST_CASE("metrics: scores and classes outside of what they mean are refused") {
    const auto refused = [](const char* name, const at::Tensor& scores, const at::Tensor& classes,
                            const at::Tensor& weights = {}) -> std::string {
      MetricSet set;
      set.add<troupe::Accuracy>("accuracy").add<troupe::TopK>("top", 1);
      try {
        set.at(name).update(scores, classes, weights);
      } catch (const troupe::ConfigError& error) {
        return error.what();
      }
      return "";
    };
    const at::Tensor scores = torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {0.3, 0.7}});
    const at::Tensor classes = torch::tensor({1, 0, 0});
    for (const char* const name : {"accuracy", "top"}) {
      CAPTURE(name);
      const auto has = [&](const std::string& message, const char* part) {
        CAPTURE(message);
        CHECK(message.find(part) != std::string::npos);
      };
      // One logit a row is no choice between classes.
      has(refused(name, torch::ones({3, 1}), classes), "torch::stack({-x, x}, 1)");
      has(refused(name, scores, {}), "targets none");
      has(refused(name, scores, classes.unsqueeze(1)), "targets [3, 1]");
      has(refused(name, scores, torch::tensor({1, 2, 0})), "target class 2, and scores of 2");
      has(refused(name, scores, torch::tensor({1, 0, -100})), "its weight is 0");
      has(refused(name, scores, torch::tensor({1, 0, -100}), torch::tensor({1, 1, 1})), "-100");
      CHECK(refused(name, scores, torch::tensor({1, 0, -100}), torch::tensor({1, 1, 0})).empty());
      CHECK(refused(name, scores, torch::tensor({1., 0., 0.})).empty());
    }
    // Which way is better, for who looks for the best.
    MetricSet set;
    set.add<troupe::Accuracy>("a").add<troupe::TopK>("t", 1).add<troupe::RootMeanSquaredError>("r");
    set.add<troupe::Mean>("m");
    std::vector<troupe::Better> better;
    for (const auto& value : set.compute()) better.push_back(value.better);
    using troupe::Better;
    const std::vector<Better> expected = {Better::higher, Better::higher, Better::lower,
                                          Better::unknown};
    CHECK((better == expected));
  }

  TEST_CASE("losses: shapes that LibTorch broadcasts are found by what they do to an example") {
    const troupe::LossSet losses{
        {"naive", [](const at::Tensor& y,
                     const at::Tensor& t) { return (y - t).pow(2).flatten(1).mean(1); }},
        {"squeezed",
         [](const at::Tensor& y, const at::Tensor& t) { return (y.squeeze(1) - t).pow(2); }}};
    const at::Tensor y = torch::sin(torch::arange(8.)).unsqueeze(1);
    const at::Tensor t = torch::cos(torch::arange(8.));
    CHECK_THROWS_WITH_AS((void)losses.at("naive")(y, t),
                         doctest::Contains("predictions [8, 1] and targets [8]"),
                         troupe::ConfigError);
    CHECK(losses.at("naive")(y, t.unsqueeze(1)).sizes() == at::IntArrayRef{8});
    CHECK(losses.at("squeezed")(y, t).sizes() == at::IntArrayRef{8});
    CHECK(losses.at("naive")(y.narrow(0, 0, 1), t.narrow(0, 0, 1)).numel() == 1);
    // Classes beside scores have another shape by their nature.
    const troupe::LossSet classes{{"nll", [](const at::Tensor& s, const at::Tensor& c) {
                                     return -s.gather(1, c.unsqueeze(1)).squeeze(1);
                                   }}};
    CHECK(classes.at("nll")(torch::rand({8, 3}), torch::arange(8) % 3).sizes() ==
          at::IntArrayRef{8});
  }

  TEST_CASE("metrics: sums of two halves merge to the sums of the whole, to the bit") {
    torch::manual_seed(3);
    const auto scores = torch::randn({101, 5});
    const auto classes = torch::randint(5, {101}, torch::kInt64);
    MetricSet whole;
    whole.add<troupe::Accuracy>("top1").add<troupe::TopK>("top3", 3);
    MetricSet first = whole;
    MetricSet second = whole;
    for (const char* name : {"top1", "top3"}) {
      whole.at(name).update(scores, classes);
      first.at(name).update(scores.slice(0, 0, 40), classes.slice(0, 0, 40));
      second.at(name).update(scores.slice(0, 40), classes.slice(0, 40));
    }
    std::vector<double> merged = first.sums();
    for (std::size_t i = 0; i < merged.size(); ++i) merged[i] += second.sums()[i];
    CHECK(merged == whole.sums());
    first.set_sums(merged);
    CHECK(first.compute()[1].value == whole.compute()[1].value);
    CHECK(whole.compute()[1].value > whole.compute()[0].value);
  }

  TEST_CASE("metrics: a weighted mean divides by the weights") {
    MetricSet set;
    set.add<troupe::Mean>("mean");
    set.at("mean").update(torch::tensor({1.0, 5.0}), torch::tensor({3.0, 1.0}));
    CHECK(set.compute().front().value == doctest::Approx(2.0));
    set.reset();
    CHECK(set.compute().front().value == 0);
  }

  TEST_CASE("metrics: what has weight 0 is not counted, and a metric without weights says so") {
    class Sum final : public troupe::Metric {
     public:
      [[nodiscard]] std::vector<std::string> sum_names() const override { return {"sum"}; }
      [[nodiscard]] at::Tensor measure(const at::Tensor& y, const at::Tensor&) const override {
        return y.sum().to(torch::kFloat64).reshape({1});
      }
      [[nodiscard]] double compute(troupe::Span<const double> sums) const override {
        return sums[0];
      }
    };
    MetricSet set;
    set.add<troupe::Accuracy>("top1").add<troupe::TopK>("top2", 2).add<troupe::Mean>("mean");
    set.add<troupe::RootMeanSquaredError>("rmse").add<Sum>("sum");
    // Tokens [2, 2], of which the last is padding and the one before counts half.
    const auto scores = torch::tensor({{3., 2., 1.}, {2., 3., 1.}, {1., 2., 3.}, {3., 2., 1.}});
    const auto classes = torch::tensor({0, 0, 2, 0});
    const auto weights = torch::tensor({1.0, 1.0, 0.5, 0.0});
    for (const char* name : {"top1", "top2"}) set.at(name).update(scores, classes, weights);
    set.at("mean").update(torch::tensor({1.0, 2.0, 4.0, 99.0}), {}, weights);
    set.at("rmse").update(torch::tensor({1.0, 2.0, 4.0, 99.0}), torch::zeros({4}),
                          weights.to(torch::kFloat32));
    const auto values = set.compute();
    CHECK(values[0].value == doctest::Approx(1.5 / 2.5));
    CHECK(values[0].sums[1] == std::pair<std::string, double>("examples", 2.5));
    CHECK(values[1].value == 1);
    CHECK(values[2].value == doctest::Approx(5.0 / 2.5));
    CHECK(values[3].value == doctest::Approx(std::sqrt(13.0 / 2.5)));
    CHECK_THROWS_WITH_AS(set.at("sum").update(scores, {}, weights),
                         doctest::Contains("takes no weights"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(set.at("top1").update(scores, classes, weights.view({2, 2})),
                         doctest::Contains("values [4] and weights [2, 2]"), troupe::ConfigError);
  }

  TEST_CASE("metrics: the root comes after the mean, over all batches") {
    MetricSet set;
    set.add<troupe::RootMeanSquaredError>("rmse");
    CHECK(set.compute().front().value == 0);
    set.at("rmse").update(torch::tensor({{3.0}, {1.0}}), torch::tensor({{0.0}, {1.0}}));
    set.at("rmse").update(torch::tensor({{5.0}}), torch::tensor({{2.0}}));
    const auto value = set.compute().front();
    CHECK(value.value == doctest::Approx(std::sqrt(6.0)));  // of the two batches': 2.56
    CHECK(value.sums[0] == std::pair<std::string, double>("squared_error", 18));
    CHECK(value.sums[1] == std::pair<std::string, double>("values", 3));
    CHECK_THROWS_WITH_AS(set.at("rmse").update(torch::zeros({4, 1}), torch::zeros({4})),
                         doctest::Contains("predictions [4, 1] and targets [4]"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS(set.at("rmse").update(torch::zeros({4, 1})),
                         doctest::Contains("targets none"), troupe::ConfigError);
  }

  TEST_CASE("metrics: wrong shapes and names are refused with what was given") {
    MetricSet set;
    set.add<troupe::Accuracy>("accuracy");
    CHECK_THROWS_WITH_AS(set.at("accuracy").update(torch::zeros({4}), torch::zeros({4})),
                         doctest::Contains("scores [4]"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(set.at("accuracy").update(at::Tensor(), torch::zeros({4})),
                         doctest::Contains("undefined"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)set.at("acuracy"), doctest::Contains("there is: accuracy"),
                         troupe::ConfigError);
    CHECK_THROWS_AS(set.add<troupe::Mean>("loss"), troupe::ConfigError);
    CHECK_THROWS_AS(set.add<troupe::Mean>("accuracy"), troupe::ConfigError);
    CHECK_THROWS_AS(troupe::TopK(0), troupe::ConfigError);
  }

  TEST_CASE("loss_set: names are unique, functions not empty, a wrong name lists the right ones") {
    const troupe::LossFunction any = [](const at::Tensor& y, const at::Tensor&) { return y; };
    CHECK_THROWS_AS((troupe::LossSet{{"a", any}, {"a", any}}), troupe::ConfigError);
    CHECK_THROWS_AS((troupe::LossSet{{"a", {}}}), troupe::ConfigError);
    const troupe::LossSet losses{{"a", any}, {"b", any}};
    CHECK_THROWS_WITH_AS((void)losses.at("c"), doctest::Contains("there is: a, b"),
                         troupe::ConfigError);
  }
}
