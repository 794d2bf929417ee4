// What one process of a simulated job with parameter servers does, and what came of it. Every
// worker counts its own steps in an element of its own, so what anybody reads shows which steps of
// whom are in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/served_plan.h"
#include "tests/simulation/world.h"
#include "troupe/core/options/cluster.h"

namespace troupe::simulation {

struct ServedPart {
  int number = 0;         // of the plan's processes
  bool is_again = false;  // it is the second process there
  Process* process = nullptr;

  // What came of it.
  bool has_begun = false;                  // training
  std::vector<std::int64_t> numbers;       // of the steps it took; the last one may be unfinished
  std::int64_t updates = -1;               // the chief: as the servers counted
  std::vector<std::vector<float>> counts;  // the chief: each worker's steps, by server
  bool is_ok = false;
  std::string kind;  // of its error
  std::string cause;
  std::string violation;
};

/// Run inside a simulated process. `on_step`: the worker has begun its step of this number, from 0.
void serve(const ServedPlan& plan, const Cluster& cluster, ServedPart& part);
void train(const ServedPlan& plan, const Cluster& cluster, ServedPart& part,
           const std::function<void(std::int64_t step)>& on_step);

}  // namespace troupe::simulation
