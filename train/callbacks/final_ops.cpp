#include "train/callbacks/final_ops.h"

#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace troupe {

FinalOps::FinalOps(Function function) : function_(std::move(function)) {
  if (function_) return;
  throw ConfigError("FinalOps was given no function.", "give the function to run at the end.");
}

void FinalOps::end(RunControl& run) {
  try {
    values_ = function_(run.replica());
  } catch (const std::out_of_range& error) {
    throw DataError(text("the final function, run after step ", run.step(),
                         ", read past the end of its data: ", error.what(), "."),
                    "let it read data of its own: the training data may have ended by then.");
  } catch (...) {
    log_error("the final function failed after step ", run.step(),
              "; training itself had ended cleanly.");
    throw;
  }
}

}  // namespace troupe
