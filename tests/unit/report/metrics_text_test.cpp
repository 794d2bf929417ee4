#include "troupe/report/status/metrics_text.h"

#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "tests/support/test_prelude.h"
#include "troupe/core/version.h"

namespace metrics_text_test {

using troupe::Progress;
using troupe::detail::metrics_text;

namespace {

/// The samples: "name{label}" and value.
std::map<std::string, std::string> samples(const std::string& text) {
  std::map<std::string, std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.front() == '#') continue;
    const std::size_t blank = line.rfind(' ');
    CHECK(found.emplace(line.substr(0, blank), line.substr(blank + 1)).second);
  }
  return found;
}

Progress some_progress() {
  Progress progress;
  progress.activity = Progress::Activity::training;
  progress.step = 1200;
  progress.first_step = 1000;
  progress.total_steps = 4690;
  progress.epoch = 2;
  progress.steps_per_second = 81.5;
  progress.examples_per_second = 10432;
  progress.examples = 25600;
  progress.losses = {{"loss", 0.0625}, {"generator", 1e-7}};
  progress.learning_rate = 0.03;
  progress.validation = {{"accuracy", 0.9795}};
  progress.validation_step = 938;
  progress.waiting = {{"chief/0", 0.01}, {"worker/1", 0.25}};
  return progress;
}

}  // namespace

TEST_SUITE("status") {
  TEST_CASE("metrics: every number of the progress, to the last digit") {
    auto found = samples(metrics_text(some_progress(), 4));
    CHECK(found["troupe_build_info{version=\"" + std::string(troupe::kVersion) + "\"}"] == "1");
    CHECK(found["troupe_workers"] == "4");
    CHECK(found["troupe_activity{activity=\"training\"}"] == "1");
    CHECK(found["troupe_activity{activity=\"ended\"}"] == "0");
    CHECK(found["troupe_step"] == "1200");
    CHECK(found["troupe_last_step"] == "4690");
    CHECK(found["troupe_epoch"] == "2");
    CHECK(found["troupe_steps_total"] == "200");
    CHECK(found["troupe_examples_total"] == "25600");
    CHECK(found["troupe_steps_per_second"] == "81.5");
    CHECK(found["troupe_examples_per_second"] == "10432");
    CHECK(found["troupe_loss{name=\"loss\"}"] == "0.0625");
    CHECK(found["troupe_loss{name=\"generator\"}"] == "1e-07");
    CHECK(found["troupe_learning_rate"] == "0.03");
    CHECK(found["troupe_validation{name=\"accuracy\"}"] == "0.9795");
    CHECK(found["troupe_validation_step"] == "938");
    CHECK(found["troupe_waiting_share{task=\"chief/0\"}"] == "0.01");
    CHECK(found["troupe_waiting_share{task=\"worker/1\"}"] == "0.25");
    CHECK(found.size() == 20);
  }

  TEST_CASE("metrics: what is not known yet has no line, and help and type come before samples") {
    const std::string text = metrics_text(Progress(), 1);
    const auto found = samples(text);
    CHECK(found.count("troupe_step") == 1);
    CHECK(found.count("troupe_learning_rate") == 0);
    CHECK(text.find("troupe_loss") == std::string::npos);
    CHECK(text.find("troupe_validation") == std::string::npos);
    CHECK(text.back() == '\n');
    for (const auto& [sample, value] : found) {
      const std::string name = sample.substr(0, sample.find('{'));
      const std::size_t help = text.find("# HELP " + name + " ");
      const std::size_t type = text.find("\n# TYPE " + name + " ");
      REQUIRE(help != std::string::npos);
      CHECK(help < type);
      CHECK(type < text.find("\n" + sample + " "));
    }
  }

  TEST_CASE("metrics: numbers that are none, and names that break the format") {
    Progress progress;
    const double infinity = std::numeric_limits<double>::infinity();
    progress.losses = {{"a\"} 1\ntroupe_step 7\\", infinity},
                       {"b", -infinity},
                       {"c\xff", std::numeric_limits<double>::quiet_NaN()}};
    auto found = samples(metrics_text(progress, 1));
    CHECK(found["troupe_step"] == "0");
    CHECK(found["troupe_loss{name=\"a\\\"} 1\\ntroupe_step 7\\\\\"}"] == "+Inf");
    CHECK(found["troupe_loss{name=\"b\"}"] == "-Inf");
    CHECK(found["troupe_loss{name=\"c\xef\xbf\xbd\"}"] == "NaN");
  }
}

}  // namespace metrics_text_test
