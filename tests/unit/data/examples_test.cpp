#include "troupe/data/examples.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/torch_prelude.h"
#include "tests/unit/data/numbers_dataset.h"
#include "troupe/core/error.h"
#include "troupe/data/loader.h"
#include "troupe/data/shard_plan.h"

namespace examples_test {

namespace {

using troupe::DistributedDataset;
using troupe::Example;
using troupe::ExampleDataset;
using troupe::ExampleRandom;

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
    return "";
  } catch (const troupe::Error& error) {
    return error.cause();
  }
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Example i is i + 1 times the number i, and a number drawn for it.
Example ragged(std::int64_t i, ExampleRandom& random) {
  return {torch::full({i + 1}, i), torch::tensor(static_cast<std::int64_t>(random.below(1 << 20)))};
}

std::shared_ptr<const ExampleDataset> ragged_numbers(std::int64_t size) {
  return std::make_shared<ExampleDataset>(size, ragged, troupe::padded());
}

/// By example, the number drawn for it.
using Drawn = std::map<std::int64_t, std::int64_t>;

/// Adds what `replicas` replicas from `first` on draw in an epoch from `step` on.
void add_drawn(Drawn& drawn, const DistributedDataset& data, std::int64_t epoch,
               std::int64_t step = 0) {
  for (const auto& batch : data.epoch(epoch, step)) {
    for (const troupe::Batch& own : batch.replicas) {
      for (std::int64_t i = 0; i < own.examples(); ++i) {
        drawn[own.fields[0][i][0].item<std::int64_t>()] = own.fields[1][i].item<std::int64_t>();
      }
    }
  }
}

DistributedDataset over(std::shared_ptr<const troupe::Dataset> dataset, int replicas, int first,
                        int local, int threads = 1, std::uint64_t seed = 1) {
  troupe::ShardPlanOptions plan;
  plan.examples = dataset->size();
  plan.global_batch = 7;
  plan.replicas = replicas;
  plan.seed = seed;
  troupe::LoaderOptions options;
  options.threads = threads;
  return {std::move(dataset), troupe::ShardPlan(plan), first, local, options};
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("examples: ragged ones are padded to the batch's longest, with a mask") {
    const auto batch = ragged_numbers(4)->get(torch::tensor({std::int64_t{2}, std::int64_t{0}}));
    REQUIRE(batch.size() == 3);
    CHECK(batch[0].equal(torch::tensor({{2, 2, 2}, {0, 0, 0}}, torch::kLong)));
    CHECK(batch[1].sizes() == at::IntArrayRef{2});
    CHECK(batch[2].equal(torch::tensor({{true, true, true}, {true, false, false}})));
    CHECK(batch[2].sum(1).equal(torch::tensor({3, 1}, torch::kLong)));
  }

  TEST_CASE("examples: several ragged fields share a mask, and padding has a value") {
    const auto rows = [](std::int64_t length) {
      return Example{torch::ones({length}), torch::ones({2}), torch::ones({length, 2})};
    };
    const auto batch = troupe::padded({0, 2}, -1)({rows(1), rows(2), rows(0)});
    REQUIRE(batch.size() == 4);
    CHECK(batch[0].equal(torch::tensor({{1., -1.}, {1., 1.}, {-1., -1.}}, torch::kFloat)));
    CHECK(batch[1].sizes() == at::IntArrayRef({3, 2}));
    CHECK(batch[2].sizes() == at::IntArrayRef({3, 2, 2}));
    CHECK(batch[2].sum().item<double>() == 6 - 6);
    CHECK(batch[3].sum(1).equal(torch::tensor({1, 2, 0}, torch::kLong)));
  }

  TEST_CASE("examples: what does not fit together is refused by example and field") {
    const Example two{torch::ones({2}), torch::ones({1})};
    const auto with = [&](const Example& other, const troupe::Collate& collate) {
      return refusal([&] { (void)collate({two, other}); });
    };
    const troupe::Collate padded = troupe::padded({0, 1});
    CHECK(says(with({torch::ones({3}), torch::ones({1})}, troupe::stack), "example 1 of a batch"));
    CHECK(says(with({torch::ones({3}), torch::ones({1})}, troupe::stack), "field 0"));
    CHECK(says(with({torch::ones({2})}, troupe::stack), "has 1 fields, the first 2"));
    CHECK(says(with({torch::ones({2}), at::Tensor()}, troupe::stack), "undefined"));
    CHECK(says(with({torch::ones({2}, torch::kLong), torch::ones({1})}, troupe::stack), "Long"));
    CHECK(says(with({torch::ones({2, 2}), torch::ones({1})}, troupe::padded()), "row"));
    CHECK(says(with({torch::ones({3}), torch::ones({1})}, padded), "another length"));
    CHECK(says(with(two, troupe::padded({2})), "field 2 of 2"));
    CHECK(says(refusal([] { (void)troupe::padded({}); }), "no field"));
    CHECK(says(refusal([] { ExampleDataset(-1, ragged); }), "-1 examples"));
    CHECK(says(refusal([] { ExampleDataset(1, nullptr); }), "no function"));
    const auto three = ragged_numbers(3);
    CHECK(says(refusal([&] { (void)three->get(torch::tensor({std::int64_t{3}})); }), "example 3"));
  }

  TEST_CASE("examples: random numbers are the same at any width, number of threads, and resumed") {
    const auto dataset = ragged_numbers(50);
    Drawn alone;
    add_drawn(alone, over(dataset, 1, 0, 1), 2);
    CHECK(alone.size() == 50);
    for (const int workers : {2, 3, 5}) {
      for (const int threads : {1, 4}) {
        Drawn together;
        for (int worker = 0; worker < workers; ++worker) {
          add_drawn(together, over(dataset, 2 * workers, 2 * worker, 2, threads), 2);
        }
        CHECK(together == alone);
      }
    }
    Drawn resumed;
    add_drawn(resumed, over(dataset, 1, 0, 1), 2, 5);
    CHECK(resumed.size() == 50 - 5 * 7);
    for (const auto& [example, number] : resumed) CHECK(alone.at(example) == number);
    Drawn other_epoch;
    add_drawn(other_epoch, over(dataset, 1, 0, 1), 3);
    CHECK(other_epoch != alone);
    Drawn other_seed;
    add_drawn(other_seed, over(dataset, 1, 0, 1, 1, 2), 2);
    CHECK(other_seed != alone);
  }

  TEST_CASE("examples: an example that is drawn twice is changed twice") {
    troupe::ShardPlanOptions plan;
    plan.examples = 1;
    plan.global_batch = 2;
    plan.sampler = troupe::weighted({1}, 8);
    const DistributedDataset data(ragged_numbers(1), troupe::ShardPlan(plan), 0, 1);
    std::map<std::int64_t, int> numbers;
    for (const auto& batch : data.epoch(0)) {
      for (std::int64_t i = 0; i < 2; ++i) {
        ++numbers[batch.replicas[0].fields[1][i].item<std::int64_t>()];
      }
    }
    CHECK(numbers.size() == 8);
  }

  TEST_CASE("examples: fields of lengths of their own, ragged in the step") {
    const std::vector<Example> graphs = {
        {torch::tensor({{1.0, 2.0}, {3.0, 4.0}}), torch::tensor({7, 8, 9}), torch::tensor(1)},
        {torch::empty({0, 2}), torch::tensor({5}), torch::tensor(2)},
        {torch::tensor({{5.0, 6.0}}), torch::empty({0}, torch::kLong), torch::tensor(3)}};
    const std::vector<at::Tensor> batch = troupe::padded_apart({1, 0}, -1)(graphs);
    REQUIRE(batch.size() == 5);
    CHECK(batch[0].sizes() == at::IntArrayRef({3, 2, 2}));
    CHECK(batch[1].equal(torch::tensor({{7, 8, 9}, {5, -1, -1}, {-1, -1, -1}})));
    CHECK(batch[2].equal(torch::tensor({1, 2, 3})));

    const troupe::RaggedRows edges = troupe::ragged(batch[1], batch[3]);
    CHECK(edges.values.equal(torch::tensor({7, 8, 9, 5})));
    CHECK(edges.example.equal(torch::tensor({0, 0, 0, 1})));
    CHECK(edges.offsets.equal(torch::tensor({0, 3, 4, 4})));
    const at::Tensor nodes = batch[0].clone().requires_grad_();
    const troupe::RaggedRows rows = troupe::ragged(nodes, batch[4]);
    CHECK(rows.values.detach().equal(torch::tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})));
    CHECK(rows.example.equal(torch::tensor({0, 0, 2})));
    rows.values.sum().backward();
    CHECK(nodes.grad().sum().item<double>() == 6);  // what fills up has no gradient

    const troupe::RaggedRows none = troupe::ragged(batch[1].slice(0, 2), batch[3].slice(0, 2));
    CHECK(none.values.size(0) == 0);
    CHECK(none.offsets.equal(torch::tensor({0, 0})));
    const troupe::RaggedRows empty =
        troupe::ragged(torch::empty({2, 0, 4}), torch::empty({2, 0}, torch::kBool));
    CHECK(empty.values.sizes() == at::IntArrayRef({0, 4}));
    CHECK(
        says(refusal([&] { (void)troupe::ragged(batch[0], batch[3]); }), "do not belong together"));
    CHECK(says(refusal([&] { (void)troupe::padded_apart({}); }), "no field"));
    CHECK(says(refusal([&] { (void)troupe::padded_apart({3})(graphs); }), "field 3 of 3"));
  }

  TEST_CASE("examples: a data set of torch::data, as it is, mapped and without targets") {
    struct Squares : torch::data::datasets::Dataset<Squares> {
      torch::data::Example<> get(std::size_t i) override {
        const auto number = static_cast<double>(i);
        return {torch::full({2}, number), torch::tensor(number * number)};
      }
      [[nodiscard]] c10::optional<std::size_t> size() const override { return 9; }
    };
    struct Endless : Squares {
      [[nodiscard]] c10::optional<std::size_t> size() const override { return c10::nullopt; }
    };
    const at::Tensor numbers = torch::tensor({8, 0, 3});
    const auto plain = troupe::from_torch_data(Squares());
    CHECK(plain->size() == 9);
    const auto fields = plain->get(numbers);
    REQUIRE(fields.size() == 2);
    CHECK(fields[0].sizes() == at::IntArrayRef({3, 2}));
    CHECK(fields[1].equal(torch::tensor({64.0, 0.0, 9.0})));
    const auto mapped =
        troupe::from_torch_data(Squares()
                                    .map(torch::data::transforms::Normalize<>(1.0, 2.0))
                                    .map(torch::data::transforms::Stack<>()));
    CHECK(mapped->get(numbers)[0].flatten(1).select(1, 0).equal(torch::tensor({3.5, -0.5, 1.0})));
    const auto alone = troupe::from_torch_data(
        torch::data::datasets::TensorDataset(torch::arange(6).view({3, 2})));
    CHECK(alone->get(torch::tensor({2, 1})).at(0).equal(torch::tensor({{4, 5}, {2, 3}})));
    CHECK(
        says(refusal([] { (void)troupe::from_torch_data(Endless()); }), "does not know its size"));
  }

  TEST_CASE("examples: a data set of torch::data is read by one thread at a time") {
    struct Alone : torch::data::datasets::Dataset<Alone> {
      torch::data::Example<> get(std::size_t i) override {
        const bool alone = !inside->exchange(true);
        const at::Tensor number = torch::tensor(static_cast<double>(alone ? i : -1));
        inside->store(false);
        return {number, number};
      }
      [[nodiscard]] c10::optional<std::size_t> size() const override { return 64; }
      std::shared_ptr<std::atomic<bool>> inside = std::make_shared<std::atomic<bool>>(false);
    };
    const auto set = troupe::from_torch_data(Alone());
    const at::Tensor all = torch::arange(64);
    std::vector<at::Tensor> read(4);
    std::vector<std::thread> threads;
    for (at::Tensor& own : read) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) own = set->get(all).at(0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const at::Tensor& own : read) CHECK(own.equal(all.to(torch::kFloat)));
  }

  TEST_CASE("examples: a transform changes one after the other, in parts and on top of another") {
    const auto add = [](Example example, ExampleRandom& random) {
      return Example{example[0], example[0] * 0 + static_cast<std::int64_t>(random.below(1 << 20))};
    };
    const auto inner = std::make_shared<troupe::testing::NumbersDataset>(20);
    const auto once = troupe::transformed(inner, add);
    CHECK(once->size() == 20);
    const auto keep_both = [](Example example, ExampleRandom& random) {
      example.push_back(example[0] * 0 + static_cast<std::int64_t>(random.below(1 << 20)));
      return example;
    };
    const auto twice = troupe::transformed(once, keep_both);
    for (const auto& dataset : {twice, troupe::take(twice, 5, 10)}) {
      std::vector<at::Tensor> fields;
      dataset->draw_into(torch::arange(4), {1, 2, 3}, fields);
      REQUIRE(fields.size() == 3);
      CHECK(fields[0].sizes() == at::IntArrayRef{4});
      CHECK_FALSE(fields[1].equal(fields[2]));  // layers draw for themselves
      std::vector<at::Tensor> shifted;
      dataset->draw_into(torch::arange(1, 4), {1, 2, 4}, shifted);
      CHECK(shifted[1].equal(fields[1].slice(0, 1)));
      CHECK(shifted[2].equal(fields[2].slice(0, 1)));
    }
    CHECK(says(refusal([&] { (void)troupe::transformed(nullptr, add); }), "null"));
  }
}

}  // namespace examples_test
