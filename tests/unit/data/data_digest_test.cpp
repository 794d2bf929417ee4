// By what two processes see that they have other data: sizes, order, classes, a few examples.
#include "troupe/data/data_digest.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"
#include "troupe/data/stream.h"

namespace data_digest_test {
namespace {

using troupe::data_difference;
using troupe::data_digest;
using troupe::Dataset;
using troupe::Splits;
using troupe::TensorDataset;

std::shared_ptr<const TensorDataset> table(const at::Tensor& x, const at::Tensor& label) {
  return std::make_shared<TensorDataset>(std::vector<at::Tensor>{x, label});
}

at::Tensor inputs() { return torch::sin(torch::arange(600, torch::kFloat64)).view({200, 3}); }
at::Tensor labels() { return torch::arange(200) % 7; }

std::string digest(const Splits& splits, const std::string& order = "shuffled") {
  return data_digest(splits, order, 1);
}

/// "what: mine, theirs"; "": none.
std::string difference(const Splits& mine, const Splits& theirs) {
  const auto found = data_difference(digest(mine), digest(theirs));
  return found ? found->what + ": " + found->mine + ", " + found->theirs : "";
}

class WithClasses final : public Dataset {
 public:
  explicit WithClasses(std::vector<std::string> classes) : classes_(std::move(classes)) {}
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    return {indices.clone()};
  }
  [[nodiscard]] std::vector<std::string> classes() const override { return classes_; }

 private:
  std::vector<std::string> classes_;
};

/// A field that get() draws anew, and one that it does not.
class Drawn final : public Dataset {
 public:
  explicit Drawn(std::int64_t offset) : offset_(offset) {}
  [[nodiscard]] std::int64_t size() const override { return 50; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    return {torch::full({indices.size(0)}, ++calls_), indices + offset_};
  }

 private:
  const std::int64_t offset_;
  static std::atomic<std::int64_t> calls_;
};
std::atomic<std::int64_t> Drawn::calls_{0};

std::shared_ptr<const Dataset> stream_from(std::int64_t first) {
  troupe::StreamOptions options;
  options.blocks = 3;
  return std::make_shared<troupe::StreamDataset>(
      [first](std::int64_t block) -> std::optional<std::vector<troupe::Example>> {
        return std::vector<troupe::Example>{{torch::tensor({first + block})}};
      },
      options);
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("data digest: the same data has no difference, nor has data that rounds otherwise") {
    const Splits splits{table(inputs(), labels()), table(inputs(), labels()), nullptr};
    CHECK(difference(splits, splits).empty());
    const Splits rounded{table(inputs() + 1e-7, labels()), nullptr, nullptr};
    CHECK(difference(splits, rounded).empty());  // a split that one lacks is not compared
    CHECK(digest(splits).size() < 32 * 1024);
  }

  TEST_CASE("data digest: other sizes, labels, rows, types and orders are named") {
    const Splits splits{table(inputs(), labels()), nullptr, nullptr};
    const auto other = [&](const at::Tensor& x, const at::Tensor& label) {
      return difference({table(x, label), nullptr, nullptr}, splits);
    };
    CHECK(other(inputs().narrow(0, 0, 199), labels().narrow(0, 0, 199)) ==
          "number of training examples: 199, 200");
    CHECK(other(inputs(), labels() + 1).find("field 1 of training example ") == 0);
    CHECK(other(inputs().flip(0), labels()).find("field 0 of training example ") == 0);
    CHECK(other(inputs().to(torch::kFloat), labels()).find("Float [3] of sum ") !=
          std::string::npos);
    CHECK(other(inputs().view({200, 3, 1}), labels()).find("[3,1]") != std::string::npos);
    const auto order = data_difference(digest(splits, "weighted 1"), digest(splits, "weighted 2"));
    REQUIRE(order.has_value());
    CHECK(order->what == "order of the training examples");
    CHECK_FALSE(data_difference(digest(splits, ""), digest(splits, "weighted 2")).has_value());
    // Of all splits.
    const Splits validated{nullptr, table(inputs(), labels()), nullptr};
    CHECK(difference({nullptr, table(inputs(), labels() + 1), nullptr}, validated)
              .find("field 1 of validation example ") == 0);
  }

  TEST_CASE("data digest: what get() draws at random is left out, and the rest is compared") {
    const Splits splits{std::make_shared<Drawn>(0), nullptr, nullptr};
    CHECK(difference({std::make_shared<Drawn>(0), nullptr, nullptr}, splits).empty());
    CHECK(difference({std::make_shared<Drawn>(1), nullptr, nullptr}, splits)
              .find("field 1 of training example ") == 0);
  }

  TEST_CASE("data digest: streams that begin with other examples differ") {
    const Splits splits{stream_from(0), nullptr, nullptr};
    CHECK(difference({stream_from(0), nullptr, nullptr}, splits).empty());
    CHECK(difference({stream_from(7), nullptr, nullptr}, splits) ==
          "field 0 of training example 0: Long [1] 7, Long [1] 0");
  }

  TEST_CASE("data digest: of files and wires whatever is no digest differs from nothing") {
    const std::string mine = digest({table(inputs(), labels()), nullptr, nullptr});
    for (const char* const theirs :
         {"", "{", "[]", "null", "{\"splits\": 3}", "{\"order\": 1, \"splits\": {}}",
          "{\"order\": \"\", \"splits\": {\"training\": {\"size\": 200, \"classes\": \"\", "
          "\"examples\": [{\"number\": []}]}}}",
          "{\"order\": \"\", \"splits\": {\"training\": []}}"}) {
      CAPTURE(theirs);
      CHECK_FALSE(data_difference(mine, theirs).has_value());
      CHECK_FALSE(data_difference(theirs, mine).has_value());
    }
  }

  TEST_CASE("data digest: the classes of a job's data sets are the same") {
    const auto cats = std::make_shared<WithClasses>(std::vector<std::string>{"cat", "dog"});
    const auto dogs = std::make_shared<WithClasses>(std::vector<std::string>{"dog"});
    CHECK_NOTHROW(troupe::check_same_classes({cats, cats, table(inputs(), labels())}));
    for (const Splits& splits :
         {Splits{cats, dogs, nullptr}, Splits{cats, nullptr, dogs}, Splits{nullptr, dogs, cats}}) {
      CHECK_THROWS_WITH_AS(troupe::check_same_classes(splits),
                           doctest::Contains("a label would mean two things"), troupe::ConfigError);
    }
    // A part of a data set has its classes.
    CHECK_THROWS_AS(troupe::check_same_classes({cats, troupe::take(dogs, 2, 3), nullptr}),
                    troupe::ConfigError);
    CHECK(difference({dogs, nullptr, nullptr}, {cats, nullptr, nullptr}) ==
          "classes of the training data: dog, cat, dog");
  }
}

}  // namespace data_digest_test
