#include "troupe/export/onnx/dynamic_sizes.h"

#include "tests/support/caught.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

using namespace troupe::detail;
using troupe::ConfigError;
using troupe::testing::has;

namespace {

using Sizes = std::vector<std::int64_t>;

/// A trace whose one operator has `number` as an argument and gives [number].
TracedGraph trace_of(std::int64_t number, const std::string& op = "aten::ones") {
  TracedGraph trace;
  trace.values = {Size(number), TracedTensor{ElementType::float32, {number}, nullptr}};
  trace.nodes = {{op, {{"size", 0}}, {1}}};
  trace.outputs = {1};
  return trace;
}

using Formula = std::int64_t (*)(std::int64_t batch, std::int64_t length);

/// What the sizes 3, 5, 2 and 9, 8, 7 make of a formula.
TracedGraph merged(Formula formula) {
  const auto sizes = sizes_to_trace({3, 9}, {5, 8}, {2, 7});
  std::vector<TracedGraph> traces;
  for (const Sizes& at : sizes) traces.push_back(trace_of(formula(at[0], at[1])));
  return merge_traces(traces, sizes, {"batch", "length"});
}

Sizes coefficients(Formula formula) {
  return std::get<Size>(merged(formula).values[0]).coefficients;
}

std::string refusal(const std::vector<TracedGraph>& traces) {
  try {
    (void)merge_traces(traces, {{3}, {5}, {2}}, {"batch"});
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE_BEGIN("export");

TEST_CASE("dynamic sizes: every combination is traced, and one more") {
  CHECK(sizes_to_trace({3}, {5}, {2}) == std::vector<Sizes>{{3}, {5}, {2}});
  CHECK(sizes_to_trace({3, 9}, {5, 8}, {2, 7}) ==
        std::vector<Sizes>{{3, 9}, {5, 9}, {3, 8}, {5, 8}, {2, 7}});
}

TEST_CASE("dynamic sizes: a number of the trace is told from a size, and a formula found") {
  CHECK(coefficients([](auto, auto) -> std::int64_t { return 3; }) == Sizes{3});
  CHECK(coefficients([](auto b, auto) { return b; }) == Sizes{0, 1, 0, 0});
  CHECK(coefficients([](auto, auto l) { return l - 1; }) == Sizes{-1, 0, 1, 0});
  CHECK(coefficients([](auto b, auto) { return 8 * b; }) == Sizes{0, 8, 0, 0});
  CHECK(coefficients([](auto b, auto l) { return b * (l + 1); }) == Sizes{0, 1, 0, 1});
  CHECK(coefficients([](auto b, auto l) { return 5 - 2 * b + 3 * l + 4 * b * l; }) ==
        Sizes{5, -2, 3, 4});
}

TEST_CASE("dynamic sizes: a formula that fails on the last trace is none") {
  // It fits 3 and 5 as 8 b - 15, which would be 1 at 2.
  CHECK_THROWS_WITH_AS((void)merged([](auto b, auto) { return b * b; }),
                       doctest::Contains("aten::ones"), ConfigError);
  CHECK_THROWS_AS((void)merged([](auto, auto l) { return l / 2; }), ConfigError);
}

TEST_CASE("dynamic sizes: in a shape alone, one without a formula is unknown") {
  const auto sizes = sizes_to_trace({3}, {5}, {2});
  std::vector<TracedGraph> traces;
  for (const Sizes& at : sizes) {
    traces.push_back(trace_of(1));
    traces.back().values[1] = TracedTensor{ElementType::float32, {at[0] * at[0], 4}, nullptr};
  }
  const TracedGraph merged = merge_traces(traces, sizes, {"batch"});
  const auto& shape = std::get<TracedTensor>(merged.values[1]).shape;
  CHECK_FALSE(shape[0].is_known());
  CHECK(shape[1].fixed() == 4);
}

TEST_CASE("dynamic sizes: what differs in more than whole numbers is refused with its place") {
  CHECK(refusal({trace_of(1), trace_of(1), trace_of(1)}).empty());
  CHECK(has(refusal({trace_of(1), trace_of(1, "aten::zeros"), trace_of(1)}),
            "(batch) from its operator 1 on, aten::ones"));
  TracedGraph real = trace_of(1);
  real.values[0] = 0.5;
  TracedGraph other = trace_of(1);
  other.values[0] = 0.25;
  CHECK(refusal({real, real, real}).empty());
  CHECK(has(refusal({real, real, other}), "computes a number in another way"));
  TracedGraph longer = trace_of(1);
  longer.nodes.push_back(longer.nodes.front());
  CHECK(has(refusal({trace_of(1), trace_of(1), longer}), "at its end"));
}

TEST_CASE("dynamic sizes: weights are compared by value") {
  const auto with_weights = [](const std::vector<float>& values) {
    TracedGraph trace = trace_of(1);
    auto owner = std::make_shared<const std::vector<float>>(values);
    Weights weights{"", reinterpret_cast<const std::byte*>(owner->data()),
                    owner->size() * sizeof(float), owner};
    trace.values.emplace_back(
        TracedTensor{ElementType::float32, {1}, std::make_shared<const Weights>(weights)});
    return trace;
  };
  CHECK(refusal({with_weights({1}), with_weights({1}), with_weights({1})}).empty());
  CHECK(has(refusal({with_weights({1}), with_weights({2}), with_weights({1})}), "a tensor"));
}

TEST_SUITE_END();
