#include "troupe/data/dataset.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/torch_prelude.h"
#include "tests/unit/data/numbers_dataset.h"
#include "troupe/core/error.h"
#include "troupe/data/batch.h"

namespace dataset_test {

namespace {

using troupe::Batch;
using troupe::TensorDataset;

at::Tensor indices(std::vector<std::int64_t> values) { return torch::tensor(values, torch::kLong); }

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("tensor_dataset: gathers every field, of any dtype and shape, in the asked order") {
    const TensorDataset dataset({torch::arange(12, torch::kByte).view({4, 3}),
                                 torch::tensor({0.5, 1.5, 2.5, 3.5}), torch::arange(4) > 1});
    CHECK(dataset.size() == 4);
    const auto batch = dataset.get(indices({3, 0, 3}));
    REQUIRE(batch.size() == 3);
    CHECK(
        torch::equal(batch[0], torch::tensor({{9, 10, 11}, {0, 1, 2}, {9, 10, 11}}, torch::kByte)));
    CHECK(torch::equal(batch[1], torch::tensor({3.5, 0.5, 3.5})));
    CHECK(torch::equal(batch[2], torch::tensor({true, false, true})));
  }

  TEST_CASE("tensor_dataset: a column of a matrix is gathered like a field of its own") {
    const TensorDataset dataset({torch::arange(6).view({3, 2}).select(1, 1)});  // strided
    CHECK(torch::equal(dataset.get(indices({2, 1}))[0], indices({5, 3})));
  }

  TEST_CASE("tensor_dataset: the transform sees the gathered batch, and may change it") {
    const at::Tensor values = torch::arange(4, torch::kFloat);
    const TensorDataset dataset({values}, [](std::vector<at::Tensor> batch) {
      const auto doubled = batch[0].mul_(2);
      return std::vector<at::Tensor>{doubled, doubled.sum().expand({2})};
    });
    const auto batch = dataset.get(indices({1, 3}));
    REQUIRE(batch.size() == 2);
    CHECK(torch::equal(batch[0], torch::tensor({2.0F, 6.0F})));
    CHECK(torch::equal(batch[1], torch::tensor({8.0F, 8.0F})));
    CHECK(torch::equal(values, torch::arange(4, torch::kFloat)));  // in the batch, not in the set
  }

  TEST_CASE("tensor_dataset: bytes are scaled to the bit as tensor operations do it") {
    const at::Tensor bytes = torch::arange(256, torch::kByte).view({128, 2});
    const at::Tensor labels = torch::arange(128, torch::kInt);
    for (const auto& [factor, shift] :
         {std::pair(1 / (255 * 0.3081), 0.1307 / 0.3081), std::pair(4.0 / 255, 2.0)}) {
      const TensorDataset dataset({bytes, labels}, {factor, shift});
      const at::Tensor order = torch::arange(127, -1, -1);
      const auto batch = dataset.get(order);
      const at::Tensor expected =
          bytes.index_select(0, order).to(torch::kFloat).mul_(factor).sub_(shift);
      CHECK((batch[0].scalar_type() == torch::kFloat));
      CHECK(torch::equal(batch[0], expected));
      CHECK(torch::equal(batch[1], labels.index_select(0, order)));
    }
  }

  TEST_CASE(
      "tensor_dataset: gathers into tensors that fit, and makes new ones of those that do not") {
    const TensorDataset dataset({torch::arange(8).view({4, 2}), torch::arange(4, torch::kFloat)});
    std::vector<at::Tensor> fields;
    dataset.get_into(indices({0, 1}), fields);
    REQUIRE(fields.size() == 2);
    const void* const first = fields[0].data_ptr();
    dataset.get_into(indices({3, 2}), fields);
    CHECK(fields[0].data_ptr() == first);
    CHECK(torch::equal(fields[0], torch::tensor({{6, 7}, {4, 5}})));
    fields[1] = torch::zeros({2}, torch::kDouble);                   // another type
    fields[0] = torch::zeros({2, 2}, torch::kLong).transpose(0, 1);  // not in order
    dataset.get_into(indices({1, 2}), fields);
    CHECK(torch::equal(fields[0], torch::tensor({{2, 3}, {4, 5}})));
    CHECK(torch::equal(fields[1], torch::tensor({1.0F, 2.0F})));
    dataset.get_into(indices({1}), fields);  // fewer examples
    CHECK(torch::equal(fields[0], torch::tensor({{2, 3}})));
    fields = {torch::zeros(3)};  // another number of fields
    dataset.get_into(indices({2}), fields);
    REQUIRE(fields.size() == 2);
    CHECK(torch::equal(fields[1], torch::tensor({2.0F})));
  }

  TEST_CASE("tensor_dataset: indices may be of any integer type and layout, and must be in range") {
    const TensorDataset dataset({torch::arange(4)});
    CHECK(torch::equal(dataset.get(torch::tensor({3, 1}, torch::kInt))[0], indices({3, 1})));
    CHECK(torch::equal(dataset.get(indices({3, 9, 1}).slice(0, 0, 3, 2))[0], indices({3, 1})));
    CHECK_THROWS_WITH_AS((void)dataset.get(indices({1, 4})),
                         doctest::Contains("Example 4 was asked for, of a data set of 4."),
                         troupe::DataError);
    CHECK_THROWS_AS((void)dataset.get(indices({-1})), troupe::DataError);
    CHECK_THROWS_AS((void)dataset.get(indices({1, 2}).view({2, 1})), troupe::DataError);
  }

  TEST_CASE("tensor_dataset: fields that do not fit together are refused") {
    using Fields = std::vector<at::Tensor>;
    CHECK_THROWS_AS(TensorDataset(Fields{}), troupe::DataError);
    CHECK_THROWS_AS(TensorDataset(Fields{at::Tensor()}), troupe::DataError);
    CHECK_THROWS_AS(TensorDataset(Fields{torch::tensor(1)}), troupe::DataError);
    CHECK_THROWS_WITH_AS(TensorDataset(Fields{torch::zeros({3, 2}), torch::zeros({2, 3})}),
                         doctest::Contains("Field 1 of a TensorDataset has 2 examples, field 0 "
                                           "has 3."),
                         troupe::DataError);
    CHECK(TensorDataset(Fields{torch::zeros({0, 2})}).size() == 0);
  }

  TEST_CASE("take: a part of a data set, and a part of that") {
    const auto all = std::make_shared<TensorDataset>(std::vector<at::Tensor>{torch::arange(10)});
    const auto some = troupe::take(all, 4, 5);  // 4 .. 8
    CHECK(some->size() == 5);
    CHECK(torch::equal(some->get(indices({0, 4}))[0], indices({4, 8})));
    const auto fewer = troupe::take(some, 1, 2);  // 5, 6
    CHECK(torch::equal(fewer->get(indices({1, 0}))[0], indices({6, 5})));
    CHECK(troupe::take(all, 10, 0)->size() == 0);
    CHECK_THROWS_AS((void)some->get(indices({5})), troupe::DataError);  // 9 is not of that part
    const auto numbers = troupe::take(std::make_shared<troupe::testing::NumbersDataset>(10), 4, 5);
    CHECK(torch::equal(numbers->get(indices({0, 4}))[0], indices({4, 8})));
    std::vector<at::Tensor> fields;
    numbers->get_into(indices({1}), fields);
    CHECK(torch::equal(fields.at(0), indices({5})));
  }

  TEST_CASE("take: examples that are not there are refused") {
    const auto all = std::make_shared<TensorDataset>(std::vector<at::Tensor>{torch::arange(10)});
    CHECK_THROWS_AS((void)troupe::take(all, 0, 11), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::take(all, 11, 0), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::take(all, -1, 1), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::take(all, 1, -1), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::take(all, 1, INT64_MAX), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::take(nullptr, 0, 0), troupe::ConfigError);
  }

  TEST_CASE("own steps: an example is its number in its step") {
    const auto steps = troupe::own_steps(3, 4);
    CHECK(steps->size() == 12);
    CHECK(steps->get(torch::tensor({0, 2, 3, 11})).at(0).equal(torch::tensor({0, 2, 0, 2})));
    CHECK_THROWS_AS((void)steps->get(torch::tensor({12})), troupe::DataError);
    std::vector<at::Tensor> fields;
    steps->draw_into(torch::tensor({4, 5}), {}, fields);
    CHECK(fields.at(0).equal(torch::tensor({1, 2})));
    for (const at::Tensor& shuffled : {torch::tensor({5, 4}), torch::tensor({2, 3})}) {
      CHECK_THROWS_WITH_AS(steps->draw_into(shuffled, {}, fields),
                           doctest::Contains("set Splits::sampler to sequential()"),
                           troupe::ConfigError);
    }
    for (const auto& [per_step, count] : {std::pair(0, 4), std::pair(3, 0)}) {
      CHECK_THROWS_WITH_AS((void)troupe::own_steps(per_step, count),
                           doctest::Contains("at least 1"), troupe::ConfigError);
    }
  }

  TEST_CASE("batch: unpacks into its fields, by number") {
    Batch batch;
    batch.fields = {torch::zeros({3, 2}), torch::ones(3)};
    CHECK(batch.examples() == 3);
    const auto [inputs, targets] = batch.unpack<2>();
    CHECK(inputs.is_same(batch.fields[0]));
    CHECK(targets.is_same(batch.fields[1]));
    CHECK_THROWS_WITH_AS((void)batch.unpack<3>(),
                         doctest::Contains("asks for 3 fields, the data set's batches have 2."),
                         troupe::ConfigError);
    batch.stand_in = true;
    CHECK(batch.examples() == 0);
  }
}

}  // namespace dataset_test
