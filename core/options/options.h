// Options: all settings of a run. Plain data; cli/ fills it in. Defaults live only here and in the
// structs below it.
#pragma once

#include <string>
#include <vector>

#include "troupe/core/log.h"
#include "troupe/core/options/data_options.h"
#include "troupe/core/options/strategy_options.h"
#include "troupe/core/options/train_options.h"

namespace troupe {

/// All settings of a run.
struct Options {
  // Defined in options.cpp: inline they would cost every program 1 s of compiling.
  Options();
  Options(const Options&);
  Options(Options&&) noexcept;
  Options& operator=(const Options&);
  Options& operator=(Options&&) noexcept;
  ~Options();

  Mode mode = Mode::train;
  TrainOptions train;
  EvalOptions eval;  // --mode train_and_evaluate and evaluate
  UseOptions use;    // --mode evaluate, predict and export
  DataOptions data;
  StrategyOptions strategy;
  LogLevel log_level = LogLevel::info;
  bool tune_malloc = true;  // parse_options makes malloc keep a step's memory for the next one
  std::vector<std::string> extra;  // the arguments after `--`
};

}  // namespace troupe
