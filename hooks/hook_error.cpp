#include "troupe/hooks/hook_error.h"

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "troupe/core/text.h"
#include "troupe/data/step_source.h"

namespace troupe::detail {
namespace {

/// Whether a field of one number per example holds classes in another type than LibTorch's losses
/// take.
bool has_labels_of_other_type(const Batch& batch) {
  return std::any_of(batch.fields.begin(), batch.fields.end(), [](const at::Tensor& field) {
    return field.dim() <= 1 && field.scalar_type() != at::kLong &&
           (!field.is_floating_point() || field.equal(field.round()));
  });
}

const char* const kRanges =
    "compare the labels with the number of outputs, and indices with the size of what they count: "
    "both run from 0 to one less than that.";

/// "Field 1 of the batch holds 0 to 9. ": of every field of integers.
std::string integers_of(const Batch& batch) {
  std::string found;
  for (std::size_t i = 0; i < batch.fields.size(); ++i) {
    const at::Tensor& field = batch.fields[i];
    if (!field.is_cpu() || !at::isIntegralType(field.scalar_type(), /*includeBool=*/false) ||
        field.numel() == 0) {
      continue;
    }
    found += text("Field ", i, " of the batch holds ", field.min().item<std::int64_t>(), " to ",
                  field.max().item<std::int64_t>(), ". ");
  }
  return found;
}

/// LibTorch's wording differs between versions: of it only what a message of a kind has in all of
/// them.
std::string fix_of(const c10::Error& error, const std::string& words, const Batch& batch) {
  const auto says = [&words](const char* part) { return words.find(part) != std::string::npos; };
  if (says("device-side assert")) {
    return text(
        "a kernel's assertion, printed above, failed: most often a label or an index is out "
        "of range. ",
        integers_of(batch), "So ", kRanges);
  }
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr || says("out of bounds"))
    return kRanges;
  if (says("same device"))
    return "register every layer, parameter and buffer with its module, which then goes to the "
           "replica's device, and make tensors in hooks where the batch is: with x.options().";
  if (says("memory")) return "lower --batch-size, or compute a step in parts with --accumulate.";
  if (says("more than 1 value per channel"))
    return "batch norm cannot normalise one example: leave a short last batch out with "
           "--drop-last, "
           "or choose a --batch-size that gives every replica, and every part of --accumulate, "
           "two.";
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

const char* hook_of(Phase phase) {
  constexpr const char* kNames[] = {"train_step", "validation_step", "test_step", "predict_step"};
  return kNames[static_cast<int>(phase)];
}

std::string describe_call(Phase phase, std::int64_t steps, const DistributedBatch& batch,
                          std::size_t share, int replicas) {
  std::vector<std::string> shapes;
  for (const at::Tensor& field : batch.replicas[share].fields)
    shapes.push_back(text(field.sizes()));
  std::string where = text(hook_of(phase), " failed after ", steps,
                           " steps of training, on a batch of ", join(shapes));
  if (batch.replicas[share].stand_in) {
    where += " (borrowed examples)";
  } else if (const std::string list = example_list(batch, share); !list.empty()) {
    where += " (examples " + list + ")";
  }
  if (replicas > 1)
    where += text(", replica ", batch.first_replica + static_cast<int>(share), " of ", replicas);
  return where;
}

FixOf fix_for(const Batch& batch) {
  return [&batch](const std::exception& error, const std::string& words) -> std::string {
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    return of_torch == nullptr ? "" : fix_of(*of_torch, words, batch);
  };
}

}  // namespace troupe::detail
