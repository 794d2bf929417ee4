#include "troupe/data/data_digest.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/data/stream.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostExamples = 8;  // of a split
constexpr std::size_t kMostFields = 64;    // of all of them
constexpr double kRounding = 1e-4;         // of the sum of a field's magnitudes

struct Split {
  const char* name;
  std::shared_ptr<const Dataset> data;
};
std::array<Split, 3> splits_of(const Splits& splits) {
  return {{{"training", splits.train}, {"validation", splits.validation}, {"test", splits.test}}};
}

/// Of one example's field: exact values by their bits, others by sums.
json describe(const at::Tensor& field) {
  const at::Tensor host = field.detach().cpu().contiguous();
  json made = {{"type", text(host.scalar_type())}, {"shape", host.sizes().vec()}};
  if (host.is_floating_point()) {
    const at::Tensor wide = host.to(at::kDouble);
    made["sum"] = wide.sum().item<double>();
    made["size"] = wide.abs().sum().item<double>();
  } else if (host.numel() == 1 && at::isIntegralType(host.scalar_type(), /*includeBool=*/true)) {
    made["bits"] = text(host.item<std::int64_t>());
  } else {
    Sha256 digest;
    digest.update(Span<const std::byte>(static_cast<const std::byte*>(host.data_ptr()),
                                        static_cast<std::size_t>(host.nbytes())));
    made["bits"] = digest.hex().substr(0, 12);
  }
  return made;
}

/// Numbers of examples below `size`, without repetition, in ascending order.
std::vector<std::int64_t> chosen(std::int64_t size, std::uint64_t seed) {
  std::vector<std::int64_t> numbers;
  ExampleRandom random(seed ^ 0x6461746164696765u);
  const std::int64_t count = std::min(size, kMostExamples);
  while (static_cast<std::int64_t>(numbers.size()) < count) {
    const auto number = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size)));
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end())
      numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// Of some examples, each of which was read twice.
json describe(const std::vector<std::int64_t>& numbers, const std::vector<Example>& first,
              const std::vector<Example>& second) {
  json examples = json::array();
  std::size_t left = kMostFields;
  for (std::size_t k = 0; k < numbers.size() && left > 0; ++k) {
    json fields = json::array();
    for (std::size_t f = 0; f < std::min(first[k].size(), second[k].size()) && left > 0;
         ++f, --left) {
      const at::Tensor& field = first[k][f];
      const bool is_drawn = !field.is_same(second[k][f]) && !field.equal(second[k][f]);
      fields.push_back(is_drawn ? json() : describe(field));
    }
    examples.push_back({{"number", numbers[k]}, {"fields", std::move(fields)}});
  }
  return examples;
}

std::vector<Example> read(const Dataset& data, const std::vector<std::int64_t>& numbers) {
  std::vector<Example> examples(numbers.size());
  if (numbers.empty()) return examples;
  const c10::NoGradGuard no_gradients;
  const std::vector<at::Tensor> fields = data.get(at::tensor(numbers, at::kLong));
  for (std::size_t k = 0; k < examples.size(); ++k) {
    for (const at::Tensor& field : fields)
      examples[k].push_back(field[static_cast<std::int64_t>(k)]);
  }
  return examples;
}

json describe(const Dataset& data, std::uint64_t seed) {
  const std::vector<std::int64_t> numbers = chosen(data.size(), seed);
  const std::vector<Example> first = read(data, numbers);
  return describe(numbers, first, read(data, numbers));
}

/// The first examples of the first block: where each worker has files of its own they differ.
json describe(const StreamDataset& stream) {
  std::vector<Example> first = stream.block(0).value_or(std::vector<Example>());
  first.resize(std::min<std::size_t>(first.size(), kMostExamples));
  std::vector<std::int64_t> numbers(first.size());
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  return describe(numbers, first, first);
}

std::string shown(const json& field) {
  std::string made = field.at("type").get<std::string>();
  if (!field.at("shape").empty()) made += " " + field.at("shape").dump();
  if (field.contains("bits")) return text(made, " ", field.at("bits").get<std::string>());
  return text(made, field.at("shape").empty() ? " " : " of sum ", field.at("sum").dump());
}

bool is_alike(const json& mine, const json& theirs) {
  if (mine.is_null() || theirs.is_null()) return true;
  if (mine.at("type") != theirs.at("type") || mine.at("shape") != theirs.at("shape")) return false;
  if (mine.contains("bits") || theirs.contains("bits"))
    return mine.value("bits", "") == theirs.value("bits", "");
  const json& sum = mine.at("sum");
  const json& other = theirs.at("sum");
  if (!sum.is_number() || !other.is_number()) return sum == other;  // not finite: null
  const double size = std::max(mine.at("size").get<double>(), theirs.at("size").get<double>());
  return std::abs(sum.get<double>() - other.get<double>()) <= kRounding * size;
}

std::optional<DataDifference> difference_of(const std::string& split, const json& mine,
                                            const json& theirs) {
  if (mine.at("size") != theirs.at("size")) {
    return DataDifference{text("number of ", split, " examples"), mine.at("size").dump(),
                          theirs.at("size").dump()};
  }
  if (mine.at("classes") != theirs.at("classes")) {
    return DataDifference{text("classes of the ", split, " data"),
                          mine.at("classes").get<std::string>(),
                          theirs.at("classes").get<std::string>()};
  }
  const json& ours = mine.at("examples");
  const json& others = theirs.at("examples");
  for (std::size_t k = 0; k < std::min(ours.size(), others.size()); ++k) {
    const json& fields = ours.at(k).at("fields");
    const json& other = others.at(k).at("fields");
    const std::string example = text(split, " example ", ours.at(k).at("number").dump());
    if (fields.size() != other.size() || ours.at(k).at("number") != others.at(k).at("number")) {
      return DataDifference{text("number of fields of ", example), text(fields.size()),
                            text(other.size())};
    }
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (is_alike(fields.at(f), other.at(f))) continue;
      return DataDifference{text("field ", f, " of ", example), shown(fields.at(f)),
                            shown(other.at(f))};
    }
  }
  return std::nullopt;
}

/// "cat, dog", short enough for a message.
std::string classes_text(const std::vector<std::string>& classes) {
  const std::string all = join(classes);
  constexpr std::size_t kShown = 120;
  if (all.size() <= kShown) return all;
  return text(all.substr(0, kShown), "... (", classes.size(), ", digest ",
              sha256_hex(all).substr(0, 12), ")");
}

}  // namespace

std::string data_digest(const Splits& splits, const std::string& order, std::uint64_t seed) {
  json made = {{"order", order}, {"splits", json::object()}};
  for (const Split& split : splits_of(splits)) {
    if (split.data == nullptr) continue;
    const auto* const stream = dynamic_cast<const StreamDataset*>(split.data.get());
    made["splits"][split.name] = {
        {"size", split.data->size()},
        {"classes", classes_text(split.data->classes())},
        {"examples", stream != nullptr ? describe(*stream) : describe(*split.data, seed)}};
  }
  return made.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

std::optional<DataDifference> data_difference(const std::string& mine, const std::string& theirs) {
  const json ours = json::parse(mine, nullptr, /*allow_exceptions=*/false);
  const json others = json::parse(theirs, nullptr, /*allow_exceptions=*/false);
  if (!ours.is_object() || !others.is_object()) return std::nullopt;
  try {
    for (const char* split : {"training", "validation", "test"}) {
      const json& own = ours.at("splits");
      const json& other = others.at("splits");
      if (!own.contains(split) || !other.contains(split)) continue;
      if (auto found = difference_of(split, own.at(split), other.at(split))) return found;
    }
    const auto order = ours.at("order").get<std::string>();
    const auto other = others.at("order").get<std::string>();
    if (order.empty() || other.empty() || order == other) return std::nullopt;
    return DataDifference{"order of the training examples", order, other};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void check_same_classes(const Splits& splits) {
  const Split* first = nullptr;
  const auto all = splits_of(splits);
  for (const Split& split : all) {
    if (split.data == nullptr || split.data->classes().empty()) continue;
    if (first == nullptr) {
      first = &split;
    } else if (split.data->classes() != first->data->classes()) {
      throw ConfigError(
          text("the classes of the ", split.name, " data are ", classes_text(split.data->classes()),
               "; those of the ", first->name, " data are ", classes_text(first->data->classes()),
               ": a label would mean two things."),
          "number both alike: give ImageFolderOptions::classes of the training data to the other.");
    }
  }
}

}  // namespace troupe
