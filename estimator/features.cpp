#include "estimator/features.h"

#include <set>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {

std::vector<std::string> feature_names(const std::vector<std::string>& given,
                                       std::size_t field_count) {
  if (given.empty()) {
    const std::size_t features = field_count > 1 ? field_count - 1 : field_count;
    if (features == 1) return {"input"};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < features; ++i) names.push_back(text("input_", i));
    return names;
  }
  if (given.size() > field_count) {
    throw ConfigError(text(given.size(), " feature names are given, and a batch has ", field_count,
                           field_count == 1 ? " field." : " fields."),
                      "name the leading fields that are inputs of the model, no more.");
  }
  const std::set<std::string> different(given.begin(), given.end());
  if (different.size() != given.size() || different.count("") != 0) {
    throw ConfigError("a feature name is empty or there twice.", "give every feature its own.");
  }
  return given;
}

FeaturesAndLabels split_fields(const std::vector<at::Tensor>& fields,
                               const std::vector<std::string>& given_names) {
  const auto names = feature_names(given_names, fields.size());
  FeaturesAndLabels split;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i < names.size()) {
      split.features.emplace_back(names[i], fields[i]);
    } else {
      split.labels.push_back(fields[i]);
    }
  }
  return split;
}

}  // namespace troupe::detail
