// Features: which fields of a batch are the model's inputs, and what they are called.
#pragma once

#include <string>
#include <vector>

#include "hooks/parameter_update.h"

namespace troupe::detail {

/// A batch's fields, told apart.
struct FeaturesAndLabels {
  std::vector<NamedTensor> features;
  std::vector<at::Tensor> labels;
};

/// The names of the features among `field_count` fields: `given`, or by the rule of
/// EstimatorOptions::feature_names. Throws: ConfigError for more names than fields, or an empty or
/// repeated one.
[[nodiscard]] std::vector<std::string> feature_names(const std::vector<std::string>& given,
                                                     std::size_t field_count);

[[nodiscard]] FeaturesAndLabels split_fields(const std::vector<at::Tensor>& fields,
                                             const std::vector<std::string>& given_names);

}  // namespace troupe::detail
