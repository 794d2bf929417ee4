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
  words.erase(words.find_last_not_of("\n. ") + 1);
  for (char& c : words) {
    if (c == '\n') c = ' ';
  }
  return words;
}

/// For what is told in words of LibTorch's inside.
const char* fix_of(const std::string& words) {
  if (words.find("out of bounds") != std::string::npos)
    return "compare the labels with the number of outputs: classes count from 0 to one less than "
           "that.";
  if (words.find("scalar type Long") != std::string::npos)
    return "labels of classes are integers: read them with csv_category or csv_integer, or convert "
           "them by "
           ".to(torch::kLong).";
  return "compare these shapes, and the types and devices of the tensors, with what the models and "
         "losses take.";
}

}  // namespace

HookError hook_error(const c10::Error& error, Phase phase, std::int64_t steps, const Batch& batch) {
  std::vector<std::string> shapes;
  for (const at::Tensor& field : batch.fields) shapes.push_back(text(field.sizes()));
  const std::string words = words_of(error);
  return HookError(text(to_string(phase), "_step failed after ", steps,
                        " steps of training, on a batch of ", join(shapes), ": ", words, "."),
                   fix_of(words));
}

}  // namespace troupe::detail
