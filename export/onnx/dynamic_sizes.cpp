#include "troupe/export/onnx/dynamic_sizes.h"

#include <algorithm>
#include <cstring>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr const char* kSizesFix =
    "in predict_step leave branches and numbers that depend on sizes away, and make tensors with "
    "operators that take sizes (arange, full, zeros); or export with --export-format torchscript.";

[[noreturn]] void refuse_difference(const std::string& where, const std::string& what,
                                    const std::vector<std::string>& names) {
  throw ConfigError(
      text("the model computes ", what, " in another way for other sizes (", join(names), ") ",
           where, ": what ONNX would do at all of them is not known."),
      kSizesFix);
}

/// The Size that has `values` at the corners, whose sizes are `sizes`; coefficients of whole
/// numbers only. Unknown where there is none, or where it fails on what follows the corners.
Size solve(const Numbers& values, const std::vector<Numbers>& sizes) {
  if (std::all_of(values.begin(), values.end(), [&](auto v) { return v == values.front(); })) {
    return values.front();
  }
  const std::size_t dynamic = sizes.front().size();
  const std::size_t corners = std::size_t{1} << dynamic;
  Numbers c(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(corners));
  // One size after the other: values at its first and second value become offset and slope.
  for (std::size_t s = 0; s < dynamic; ++s) {
    const std::size_t bit = std::size_t{1} << s;
    const std::int64_t from = sizes.front()[s];
    const std::int64_t step = sizes[bit][s] - from;
    for (std::size_t i = 0; i < corners; ++i) {
      if ((i & bit) == 0) continue;
      const std::int64_t rise = c[i] - c[i ^ bit];
      if (rise % step != 0) return {};
      c[i] = rise / step;
      c[i ^ bit] -= c[i] * from;
    }
  }
  for (std::size_t i = corners; i < values.size(); ++i) {
    std::int64_t sum = 0;
    for (std::size_t subset = 0; subset < corners; ++subset) {
      std::int64_t product = c[subset];
      for (std::size_t s = 0; s < dynamic; ++s) {
        if ((subset >> s & 1U) != 0) product *= sizes[i][s];
      }
      sum += product;
    }
    if (sum != values[i]) return {};
  }
  Size size;
  size.coefficients = std::move(c);
  return size;
}

/// The traces' values of one place, merged.
class ValueMerge {
 public:
  ValueMerge(const std::vector<TracedGraph>& traces, const std::vector<Numbers>& sizes,
             const std::vector<std::string>& names)
      : traces_(traces), sizes_(sizes), names_(names) {}

  [[nodiscard]] TracedValue value(ValueId id, const std::string& where) const {
    const TracedValue& first = traces_.front().values[id];
    for (const TracedGraph& trace : traces_) {
      if (trace.values[id].index() != first.index()) differ(where, "a value");
    }
    if (std::holds_alternative<Size>(first)) return whole_number(id, where);
    if (std::holds_alternative<bool>(first)) return same<bool>(id, where, "a switch");
    if (std::holds_alternative<double>(first)) return same<double>(id, where, "a number");
    if (std::holds_alternative<std::string>(first)) return same<std::string>(id, where, "a name");
    if (std::holds_alternative<TracedList>(first)) return same<TracedList>(id, where, "a list");
    if (std::holds_alternative<TracedTensor>(first)) return tensor(id, where);
    return first;
  }

 private:
  [[noreturn]] void differ(const std::string& where, const std::string& what) const {
    refuse_difference(where, what, names_);
  }

  template <class Kind>
  [[nodiscard]] TracedValue same(ValueId id, const std::string& where, const char* what) const {
    const TracedValue& first = traces_.front().values[id];
    for (const TracedGraph& trace : traces_) {
      if (std::get<Kind>(trace.values[id]) != std::get<Kind>(first)) differ(where, what);
    }
    return first;
  }

  [[nodiscard]] Size whole_number(ValueId id, const std::string& where) const {
    Numbers values;
    for (const TracedGraph& trace : traces_) {
      values.push_back(std::get<Size>(trace.values[id]).fixed());
    }
    const Size size = solve(values, sizes_);
    if (!size.is_known()) differ(where, text("the number ", values.front()));
    return size;
  }

  [[nodiscard]] TracedTensor tensor(ValueId id, const std::string& where) const {
    TracedTensor merged = std::get<TracedTensor>(traces_.front().values[id]);
    for (const TracedGraph& trace : traces_) {
      const auto& other = std::get<TracedTensor>(trace.values[id]);
      if (other.element != merged.element || other.shape.size() != merged.shape.size() ||
          !same_weights(other.weights.get(), merged.weights.get())) {
        differ(where, "a tensor");
      }
    }
    for (std::size_t d = 0; d < merged.shape.size(); ++d) {
      Numbers values;
      for (const TracedGraph& trace : traces_) {
        values.push_back(std::get<TracedTensor>(trace.values[id]).shape[d].fixed());
      }
      merged.shape[d] = solve(values, sizes_);
    }
    return merged;
  }

  static bool same_weights(const Weights* a, const Weights* b) {
    if (a == nullptr || b == nullptr) return a == b;
    if (a->bytes != b->bytes || a->name != b->name) return false;
    return a->data == b->data || a->bytes == 0 || std::memcmp(a->data, b->data, a->bytes) == 0;
  }

  const std::vector<TracedGraph>& traces_;
  const std::vector<Numbers>& sizes_;
  const std::vector<std::string>& names_;
};

/// Throws: ConfigError where `other` does other things than `first`, sizes aside.
void check_same_course(const TracedGraph& first, const TracedGraph& other,
                       const std::vector<std::string>& names) {
  const std::size_t count = std::min(first.nodes.size(), other.nodes.size());
  for (std::size_t i = 0; i < count; ++i) {
    const TracedNode& a = first.nodes[i];
    const TracedNode& b = other.nodes[i];
    if (a.op != b.op || a.arguments != b.arguments || a.outputs != b.outputs) {
      refuse_difference(text("from its operator ", i + 1, " on, ", a.op), "its result", names);
    }
  }
  if (first.nodes.size() != other.nodes.size() || first.values.size() != other.values.size() ||
      first.outputs != other.outputs) {
    refuse_difference("at its end", "its result", names);
  }
}

}  // namespace

std::vector<Numbers> sizes_to_trace(const Numbers& first, const Numbers& second,
                                    const Numbers& third) {
  TROUPE_CHECK(!first.empty() && first.size() <= kMostDynamicSizes);
  std::vector<Numbers> all;
  for (std::size_t corner = 0; corner < (std::size_t{1} << first.size()); ++corner) {
    all.push_back(first);
    for (std::size_t s = 0; s < first.size(); ++s) {
      if ((corner >> s & 1U) != 0) all.back()[s] = second[s];
    }
  }
  all.push_back(third);
  return all;
}

TracedGraph merge_traces(const std::vector<TracedGraph>& traces, const std::vector<Numbers>& sizes,
                         const std::vector<std::string>& names) {
  TROUPE_CHECK_EQ(traces.size(), sizes.size());
  for (const TracedGraph& trace : traces) check_same_course(traces.front(), trace, names);
  TracedGraph merged = traces.front();
  std::vector<std::string> place(merged.values.size(), "in what it takes in");
  for (const TracedNode& node : merged.nodes) {
    const auto note = [&](ValueId id) { place[id] = "at " + node.op; };
    for (const auto& [name, id] : node.arguments) {
      note(id);
      if (const auto* list = std::get_if<TracedList>(&merged.values[id])) {
        std::for_each(list->begin(), list->end(), note);
      }
    }
  }
  const ValueMerge merge(traces, sizes, names);
  for (ValueId id = 0; id < merged.values.size(); ++id) {
    merged.values[id] = merge.value(id, place[id]);
  }
  return merged;
}

}  // namespace troupe::detail
