// troupe.h: the one include a user needs.
#pragma once

#include <torch/torch.h>

#include "cli/options.h"
#include "cli/run_main.h"
#include "core/error.h"
#include "core/log.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "hooks/hooks.h"
#include "hooks/metrics.h"
#include "hooks/todo.h"
#include "strategies/make_strategy.h"
#include "strategies/parameter_hash.h"
#include "strategies/strategy.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/summary.h"
