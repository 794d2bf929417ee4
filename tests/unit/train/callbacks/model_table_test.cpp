// The table of a model's parameters: what it counts, and that it fits a terminal.
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"
#include "troupe/train/model_summary.h"

using troupe::ParameterRow;
using troupe::split;
using troupe::summary_table;

namespace {

ParameterRow row(std::string name, std::vector<std::int64_t> shape, bool trained) {
  ParameterRow made;
  made.name = std::move(name);
  made.count = 1;
  for (const std::int64_t size : shape) made.count *= size;
  made.shape = std::move(shape);
  made.bytes = made.count * 4;
  made.type = "float32";
  made.trained = trained;
  if (trained) made.optimizer = "optimizer";
  return made;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("model table: columns, states and totals") {
    std::vector<ParameterRow> rows = {row("conv1.weight", {8, 1, 5, 5}, true),
                                      row("conv1.bias", {8}, false),
                                      row("head.weight", {1000, 1250}, true)};
    rows.push_back(row("norm.mean", {8}, false));
    rows.back().is_buffer = true;
    rows.push_back(row("again.weight", {1000, 1250}, true));
    rows.back().tied_to = "head.weight";
    CHECK(summary_table(rows) ==
          "parameter     shape            values  type     trained by\n"
          "conv1.weight  [8, 1, 5, 5]        200  float32  optimizer\n"
          "conv1.bias    [8]                   8  float32  no optimiser\n"
          "head.weight   [1000, 1250]  1,250,000  float32  optimizer\n"
          "norm.mean     [8]                   8  float32  buffer\n"
          "again.weight  [1000, 1250]  1,250,000  float32  = head.weight\n"
          "1,250,200 values trained, 8 frozen, 8 in buffers; 5.00 MB\n");
  }

  TEST_CASE("model table: no line is wider than 80 columns, and a path keeps its ends") {
    std::string path = "encoder";
    for (int i = 0; i < 20; ++i) path += ".layers." + std::to_string(i);
    const std::string table = summary_table(
        {row(path + ".attention.weight", {4096, 4096, 3, 3}, true), row("bias", {4096}, true)});
    for (const std::string& line : split(table, '\n')) CHECK(line.size() <= 80);
    CHECK(table.find("encoder.") == table.find('\n') + 1);
    CHECK(table.find("attention.weight  ") != std::string::npos);
  }
}
