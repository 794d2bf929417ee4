#include "hooks/hook_error.h"

#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "core/text.h"

namespace troupe::detail {
namespace {

/// Without the stack that LibTorch adds for its own developers, and in one line.
std::string words_of(const c10::Error& error) {
  std::string words = error.what_without_backtrace();
  words.erase(words.find_last_not_of("\n ") + 1);
  for (char& c : words) {
    if (c == '\n') c = ' ';
  }
  return words;
}

}  // namespace

HookError hook_error(const c10::Error& error, Phase phase, std::int64_t steps, const Batch& batch) {
  std::vector<std::string> shapes;
  for (const at::Tensor& field : batch.fields) shapes.push_back(text(field.sizes()));
  return HookError(
      text(to_string(phase), "_step failed after ", steps, " steps of training, on a batch of ",
           join(shapes), ": ", words_of(error), "."),
      "compare these shapes, and the types and devices of the tensors, with what the models and "
      "losses take.");
}

}  // namespace troupe::detail
