// Metrics that are made from several sums: against their definitions, counted one by one.
#include "troupe/hooks/metrics/scores.h"

#include <cmath>

#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"

namespace scores_test {

using namespace troupe;  // NOLINT: this file's subject

namespace {

constexpr std::int64_t kExamples = 97;
constexpr std::int64_t kClasses = 5;

/// Scores [97, 5], and targets [97] of classes 0 to 3: nothing is of class 4.
struct Classified {
  at::Tensor scores = torch::sin(torch::arange(kExamples * kClasses, torch::kFloat64) * 1.7)
                          .view({kExamples, kClasses});
  at::Tensor targets = (torch::arange(kExamples) * 7 / 3).remainder(4).to(torch::kInt64);
};

/// Probabilities and 0 or 1, of which the higher are more often 1.
struct Judged {
  at::Tensor scores = (torch::sin(torch::arange(kExamples, torch::kFloat64) * 2.3) + 1) / 2;
  at::Tensor targets =
      (scores + torch::cos(torch::arange(kExamples, torch::kFloat64) * 5.1) / 2).gt(0.5);
};

template <class M, class... Args>
double value_of(const at::Tensor& predictions, const at::Tensor& targets,
                const at::Tensor& weights = {}, Args... args) {
  MetricSum sum(std::make_shared<const M>(args...));
  sum.update(predictions, targets, weights);
  return sum.metric().compute(sum.sums());
}

/// Whether batches of any size, on several workers, come to the sums of one.
template <class M, class... Args>
void check_exact(const at::Tensor& predictions, const at::Tensor& targets, Args... args) {
  const auto metric = std::make_shared<const M>(args...);
  MetricSum whole(metric);
  whole.update(predictions, targets);
  for (const std::int64_t batch : {1, 10, 96}) {
    MetricSum pieces(metric);
    for (std::int64_t i = 0; i < kExamples; i += batch) {
      const auto count = std::min(batch, kExamples - i);
      pieces.update(predictions.narrow(0, i, count), targets.narrow(0, i, count));
    }
    const auto sums = whole.sums();
    for (std::size_t i = 0; i < sums.size(); ++i)
      CHECK(pieces.sums()[i] == doctest::Approx(sums[i]).epsilon(1e-14));
  }
  // What weighs nothing counts as little as what is not there.
  MetricSum some(metric);
  some.update(predictions.narrow(0, 0, 60), targets.narrow(0, 0, 60));
  MetricSum weighted(metric);
  weighted.update(predictions, targets, torch::arange(kExamples).lt(60));
  CHECK(metric->compute(weighted.sums()) == doctest::Approx(metric->compute(some.sums())));
}

double f1_of(const Classified& data, std::int64_t of) {
  const at::Tensor predicted = data.scores.argmax(1);
  double right = 0, wrong = 0, missed = 0;
  for (std::int64_t i = 0; i < kExamples; ++i) {
    const bool said = predicted[i].item<std::int64_t>() == of;
    const bool is = data.targets[i].item<std::int64_t>() == of;
    right += said && is;
    wrong += said && !is;
    missed += !said && is;
  }
  return right == 0 ? 0 : 2 * right / (2 * right + wrong + missed);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("hooks") {
  TEST_CASE("scores: F1 of a class and of all that occur") {
    const Classified data;
    double total = 0;
    for (std::int64_t c = 0; c < kClasses; ++c) {
      const double expected = f1_of(data, c);
      total += expected;
      CHECK(value_of<F1>(data.scores, data.targets, {}, kClasses, std::optional(c)) ==
            doctest::Approx(expected));
    }
    CHECK(value_of<F1>(data.scores, data.targets, {}, kClasses) ==
          doctest::Approx(total / kClasses));  // class 4 is predicted
    // A sixth class neither is nor is predicted: it does not count.
    const at::Tensor more = torch::cat({data.scores, torch::full({kExamples, 1}, -9.0)}, 1);
    CHECK(value_of<F1>(more, data.targets, {}, kClasses + 1) == doctest::Approx(total / kClasses));
    check_exact<F1>(data.scores, data.targets, kClasses);
    CHECK(refusal([] { F1(1); }).find("1 classes") != std::string::npos);
    CHECK(refusal([] { F1(3, 3); }).find("class 3") != std::string::npos);
    CHECK(refusal([&] {
            (void)value_of<F1>(data.scores, data.targets, {}, std::int64_t{4});
          }).find("scores of 5") != std::string::npos);
    CHECK(refusal([&] {
            (void)value_of<F1>(data.scores, data.targets + 3, {}, kClasses);
          }).find("target class") != std::string::npos);
  }

  TEST_CASE("scores: a confusion matrix counts what is taken for what, and draws it") {
    const Classified data;
    const ConfusionMatrix metric(kClasses);
    const at::Tensor sums = metric.measure(data.scores, data.targets).view({kClasses, kClasses});
    const at::Tensor predicted = data.scores.argmax(1);
    for (std::int64_t target = 0; target < kClasses; ++target) {
      for (std::int64_t taken = 0; taken < kClasses; ++taken) {
        const auto both = data.targets.eq(target).logical_and(predicted.eq(taken));
        CHECK(sums[target][taken].item<double>() == both.sum().item<double>());
      }
    }
    CHECK(value_of<ConfusionMatrix>(data.scores, data.targets, {}, kClasses) ==
          doctest::Approx(predicted.eq(data.targets).to(torch::kFloat64).mean().item<double>()));
    check_exact<ConfusionMatrix>(data.scores, data.targets, kClasses);

    const std::vector<double> counts{3, 1, 0, 0};  // of class 1 there is none
    const at::Tensor picture = ConfusionMatrix(2).picture(counts);
    REQUIRE(picture.sizes() == at::IntArrayRef({3, 256, 256}));
    const auto red_at = [&](std::int64_t y, std::int64_t x) {
      return picture[0][y][x].item<double>();
    };
    CHECK(red_at(10, 10) == doctest::Approx(1 - 0.75 * 0.88));
    CHECK(red_at(10, 200) == doctest::Approx(1 - 0.25 * 0.88));
    CHECK(red_at(200, 10) == 1);
    CHECK(refusal([] { ConfusionMatrix(1); }).find("1 classes") != std::string::npos);
    CHECK(refusal([&] {
            (void)value_of<ConfusionMatrix>(data.scores, data.targets + 3, {}, kClasses);
          }).find("target class") != std::string::npos);
  }

  TEST_CASE("scores: the area under the curve is the share of pairs in the right order") {
    const Judged data;
    double pairs = 0, right = 0;
    for (std::int64_t i = 0; i < kExamples; ++i) {
      for (std::int64_t k = 0; k < kExamples; ++k) {
        if (!data.targets[i].item<bool>() || data.targets[k].item<bool>()) continue;
        const double higher = data.scores[i].item<double>() - data.scores[k].item<double>();
        ++pairs;
        right += higher > 0 ? 1 : higher == 0 ? 0.5 : 0;
      }
    }
    const double expected = right / pairs;
    CHECK(expected > 0.6);
    CHECK(expected < 0.95);
    const auto with = [&](std::int64_t bins) {
      return value_of<AreaUnderCurve>(data.scores, data.targets, {}, bins);
    };
    CHECK(with(1 << 20) == doctest::Approx(expected).epsilon(1e-12));  // no two in one bin
    CHECK(std::abs(with(1024) - expected) < 2e-3);
    CHECK(value_of<AreaUnderCurve>(torch::tensor({0.0, 1.0, 1.0}), torch::tensor({0, 1, 0})) ==
          doctest::Approx(0.75));  // the ends are bins, too; a tie is half
    CHECK(value_of<AreaUnderCurve>(data.scores, torch::ones({kExamples})) == 0);
    check_exact<AreaUnderCurve>(data.scores, data.targets);
    for (const double wrong : {1.5, -0.1, std::nan("")}) {
      CHECK(refusal([&] {
              (void)value_of<AreaUnderCurve>(torch::tensor({0.5, wrong}), torch::tensor({1, 0}));
            }).find("torch::sigmoid") != std::string::npos);
    }
    CHECK(refusal([&] {
            (void)value_of<AreaUnderCurve>(data.scores.unsqueeze(1), data.targets);
          }).find("[97, 1]") != std::string::npos);
    CHECK(refusal([] { AreaUnderCurve(1); }).find("two or more") != std::string::npos);
  }

  TEST_CASE("scores: R2 is the variance that is explained") {
    const at::Tensor targets = torch::sin(torch::arange(kExamples, torch::kFloat64)) + 3;
    const at::Tensor predictions = targets + torch::cos(torch::arange(kExamples) * 3) / 4;
    const double expected =
        1 - ((predictions - targets).square().sum() / (targets - targets.mean()).square().sum())
                .item<double>();
    CHECK(value_of<R2>(predictions, targets) == doctest::Approx(expected));
    CHECK(value_of<R2>(targets.mean().expand_as(targets), targets) ==
          doctest::Approx(0).epsilon(1e-12));
    CHECK(value_of<R2>(torch::ones({4}), torch::ones({4})) == 1);
    CHECK(value_of<R2>(torch::zeros({4}), torch::ones({4})) == 0);
    check_exact<R2>(predictions, targets);
    CHECK(refusal([&] { (void)value_of<R2>(predictions, targets.unsqueeze(1)); }).find("[97, 1]") !=
          std::string::npos);
  }

  TEST_CASE("scores: perplexity is the exponential of the mean loss of a token") {
    const at::Tensor losses = torch::arange(12, torch::kFloat64).view({3, 4}) / 10;
    CHECK(value_of<Perplexity>(losses, {}) == doctest::Approx(std::exp(0.55)));
    const at::Tensor mask = torch::arange(12).view({3, 4}).lt(2);
    CHECK(value_of<Perplexity>(losses, {}, mask) == doctest::Approx(std::exp(0.05)));
  }

  TEST_CASE("scores: sums without a name are not reported, and travel") {
    MetricSet set;
    set.add<F1>("f1", 2).add<Accuracy>("accuracy");
    const at::Tensor scores = torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {0.3, 0.7}});
    for (const char* name : {"f1", "accuracy"})
      set.at(name).update(scores, torch::tensor({1, 0, 0}));
    CHECK(set.sums().size() == 8);
    const auto values = set.compute();
    CHECK(values[0].value == doctest::Approx(2.0 / 3));
    CHECK(values[0].sums.empty());
    CHECK(values[1].sums.size() == 2);
    MetricSet other;
    other.add<F1>("f1", 2).add<Accuracy>("accuracy");
    other.set_sums(set.sums());
    CHECK(other.compute()[0].value == values[0].value);
  }
}

}  // namespace scores_test
