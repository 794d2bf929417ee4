#include "hooks/hook_error.h"

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
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

/// Whether a field of one number per example holds classes in another type than LibTorch's losses
/// take.
bool has_labels_of_other_type(const Batch& batch) {
  return std::any_of(batch.fields.begin(), batch.fields.end(), [](const at::Tensor& field) {
    return field.dim() <= 1 && field.scalar_type() != at::kLong &&
           (!field.is_floating_point() || field.equal(field.round()));
  });
}

/// By what the batch holds. LibTorch's wording differs between versions: of it only what a message
/// of a kind has in all of them.
const char* fix_of(const c10::Error& error, const std::string& words, const Batch& batch) {
  const auto says = [&words](const char* part) { return words.find(part) != std::string::npos; };
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr || says("out of bounds"))
    return "compare the labels with the number of outputs, and indices with the size of what they "
           "count: both run from 0 to one less than that.";
  if (says("second time"))
    return "two losses that share a forward pass go to their optimisers in one call, "
           "replica.apply_gradients({{loss, \"a\"}, {other, \"b\"}}), or each has a forward pass "
           "of "
           "its own.";
  if (says("type") && has_labels_of_other_type(batch))
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
                   fix_of(error, words, batch));
}

}  // namespace troupe::detail
