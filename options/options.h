// Options: everything a run is told. Plain data; cli/ fills it in. Defaults live here and in the
// structs below it alone.
#pragma once

#include <string>
#include <vector>

#include "core/log.h"
#include "options/data_options.h"
#include "options/strategy_options.h"
#include "options/train_options.h"

namespace troupe {

/// Everything a run is told.
struct Options {
  Mode mode = Mode::train;
  TrainOptions train;
  EvalOptions eval;  // --mode train_and_evaluate and evaluate
  UseOptions use;    // --mode evaluate, predict and export
  DataOptions data;
  StrategyOptions strategy;
  LogLevel log_level = LogLevel::info;
  bool tune_malloc = true;  // parse_options makes malloc keep a step's memory for the next one
  std::vector<std::string> extra;  // what follows `--`
};

}  // namespace troupe
