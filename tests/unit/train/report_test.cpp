// A report as JSON: which names its numbers have.
#include "troupe/hooks/report.h"

#include <nlohmann/json.hpp>

#include "tests/support/test_prelude.h"

using troupe::Phase;
using troupe::Report;
using troupe::to_json;

TEST_SUITE("train") {
  TEST_CASE("report: a metric over other things than examples keeps what it divided by") {
    Report report{Phase::test, 832, {{"loss", 2.5}}, {}, {}, 0};
    report.metrics = {{"accuracy", 0.25, {{"correct", 17}, {"examples", 53248}}},
                      {"top5", 0.5, {{"correct", 34}, {"examples", 832}}}};
    const auto json = to_json(report);
    CHECK(json["examples"] == 832);
    CHECK(json["correct"] == 17);
    CHECK(json["accuracy/examples"] == 53248);
    CHECK(json["top5/correct"] == 34);
    CHECK_FALSE(json.contains("top5/examples"));  // the report's own
  }
}
