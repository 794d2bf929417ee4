#include "troupe/cli/cluster/machine_list.h"

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr std::size_t kLongestName = 253;  // RFC 1035, 2.3.4
constexpr int kMaxBrackets = 8;            // of one name; Slurm has one for a dimension

class Expander {
 public:
  Expander(const std::string& list, const std::string& where) : list_(list), where_(where) {}

  std::vector<std::string> run() {
    std::size_t begin = 0;
    int depth = 0;
    int brackets = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (list_[i] == '[') ++depth, ++brackets;
      if (list_[i] == ']') --depth;
      if (depth < 0 || depth > 1 || brackets > kMaxBrackets) refuse();
      if (list_[i] == ',' && depth == 0) {
        expand("", list_.substr(begin, i - begin));
        begin = i + 1;
        brackets = 0;
      }
    }
    if (depth != 0) refuse();
    expand("", list_.substr(begin));
    return std::move(names_);
  }

 private:
  [[noreturn]] void refuse() const {
    throw ConfigError(text(where_, " is \"", list_.substr(0, 200), "\", not a list of machines."),
                      "it looks like gnode[10,20,25-27]; set --chief-address to go without it.");
  }

  /// Adds every name that is `head` followed by what `rest`, perhaps with brackets, stands for.
  void expand(const std::string& head, const std::string& rest) {
    const auto open = rest.find('[');
    if (open == std::string::npos) {
      if (head.empty() && rest.empty()) refuse();
      if (names_.size() == kMaxMachines || head.size() + rest.size() > kLongestName) refuse();
      names_.push_back(head + rest);
      return;
    }
    const auto close = rest.find(']', open);
    const std::string stem = head + rest.substr(0, open);
    const std::string tail = rest.substr(close + 1);
    const std::string choices = rest.substr(open + 1, close - open - 1);
    for (const std::string& choice : split(choices, ',')) expand_choice(stem, choice, tail);
  }

  void expand_choice(const std::string& stem, const std::string& choice, const std::string& tail) {
    const auto dash = choice.find('-');
    const std::string first = choice.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : choice.substr(dash + 1);
    const auto low = parse_integer<std::uint32_t>(first);
    const auto high = parse_integer<std::uint32_t>(last);
    if (!low || !high || *low > *high || first.size() > 20) refuse();
    for (std::uint64_t number = *low; number <= *high; ++number) {
      std::string digits = text(number);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      expand(stem + digits, tail);
    }
  }

  const std::string& list_;
  const std::string& where_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<std::string> expand_machine_list(const std::string& list, const std::string& where) {
  return Expander(list, where).run();
}

std::optional<int> tasks_on_machine(const std::string& counts, std::int64_t machine) {
  if (machine < 0) return std::nullopt;
  for (std::string tasks : split(counts, ',')) {
    std::optional<std::int64_t> machines = 1;
    if (const std::size_t open = tasks.find("(x"); open != std::string::npos) {
      if (tasks.back() != ')') return std::nullopt;
      machines = parse_integer<std::int64_t>(tasks.substr(open + 2, tasks.size() - open - 3));
      tasks.resize(open);
    }
    const auto count = parse_integer<int>(tasks);
    if (!count || *count < 1 || !machines || *machines < 1) return std::nullopt;
    if (machine < *machines) return count;
    machine -= *machines;
  }
  return std::nullopt;
}

}  // namespace troupe
