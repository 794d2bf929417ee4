#include "troupe/export/onnx/in_place.h"

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

using namespace troupe::detail;
using troupe::ConfigError;

namespace {

/// Operators one after the other, each on the result of the one before.
TracedGraph chain(const std::vector<std::string>& ops) {
  TracedGraph trace;
  trace.values.resize(ops.size() + 1, TracedTensor());
  trace.inputs = {0};
  for (ValueId i = 0; i < ops.size(); ++i) trace.nodes.push_back({ops[i], {{"self", i}}, {i + 1}});
  trace.outputs = {ops.size()};
  return trace;
}

std::vector<std::string> ops_after(const std::vector<std::string>& ops) {
  TracedGraph trace = chain(ops);
  replace_in_place(trace);
  std::vector<std::string> names;
  for (const TracedNode& node : trace.nodes) names.push_back(node.op);
  return names;
}

}  // namespace

TEST_SUITE_BEGIN("export");

TEST_CASE("in place: an operator on a tensor of its own becomes one that makes a new tensor") {
  CHECK(ops_after({"aten::mul", "aten::add_", "aten::relu_", "aten::__and__"}) ==
        std::vector<std::string>{"aten::mul", "aten::add", "aten::relu", "aten::__and__"});
}

TEST_CASE("in place: on a view, or on what a view was taken of, it is refused") {
  for (const char* view : {"aten::view", "aten::select", "aten::transpose"}) {
    CHECK_THROWS_WITH_AS((void)ops_after({"aten::mul", view, "aten::add_"}),
                         doctest::Contains("aten::add_"), ConfigError);
  }
  TracedGraph viewed = chain({"aten::mul", "aten::select"});
  viewed.values.emplace_back(TracedTensor());
  viewed.nodes.push_back({"aten::add_", {{"self", 1}}, {3}});
  CHECK_THROWS_AS(replace_in_place(viewed), ConfigError);
}

TEST_CASE("in place: on a parameter or buffer it is refused") {
  TracedGraph trace = chain({"aten::add_"});
  TracedTensor buffer;
  buffer.weights = std::make_shared<const Weights>();
  trace.values[0] = buffer;
  CHECK_THROWS_WITH_AS(replace_in_place(trace), doctest::Contains("a buffer"), ConfigError);
}

TEST_SUITE_END();
