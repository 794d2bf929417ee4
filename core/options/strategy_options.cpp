#include "troupe/core/options/strategy_options.h"

#include <cmath>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {

void StepOptions::validate() const {
  if (accumulate < 1) {
    throw ConfigError(text("--accumulate is ", accumulate, "."),
                      "give a whole number of at least 1.");
  }
  if (!std::isfinite(clip_norm) || clip_norm < 0) {
    throw ConfigError(text("--clip-norm is ", clip_norm, "."),
                      "give a number greater than 0, or 0 for no limit.");
  }
}

}  // namespace troupe
