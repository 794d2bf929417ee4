#include "troupe/data/hold_out.h"

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {

Splits hold_out(const std::shared_ptr<const Dataset>& all, std::int64_t validation_examples,
                std::int64_t train_examples) {
  if (validation_examples < 0 || validation_examples > all->size()) {
    throw ConfigError(text("The data set is to hold out ", validation_examples, " of ", all->size(),
                           " training examples for validation."),
                      "hold out at least 0 and at most as many as there are.");
  }
  const std::int64_t available = all->size() - validation_examples;
  if (train_examples < 0 || train_examples > available) {
    throw ConfigError(text("--train-examples asks for ", train_examples, " of ", available,
                           " training examples."),
                      text("give 1 to ", available, ", or leave it out to use all."));
  }
  Splits splits;
  splits.train = take(all, 0, train_examples > 0 ? train_examples : available);
  if (validation_examples > 0) splits.validation = take(all, available, validation_examples);
  return splits;
}

}  // namespace troupe
