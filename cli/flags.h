// Flag: one setting that a user gives on the command line, in the environment or in --config: its
// name, explanation, parsing and display. A program adds its own with flag(), bound to its
// variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace troupe {

namespace detail {
enum class FlagKind { integer, real, text, toggle };
/// In --help; in --help-all only; nowhere: what launchers and deployments hand over.
enum class FlagShown { always, in_help_all, never };
}  // namespace detail

struct Flag {
  std::string name;  // "batch-size": lower case, dashes inside, without the leading ones
  detail::FlagKind kind = detail::FlagKind::text;
  std::string value_name;  // "N" in `--epochs N`; empty for a toggle
  std::string help;        // a phrase, without a full stop
  /// Reads the value ("true" or "false" for a toggle). Returns the fix if the text is refused.
  std::function<std::optional<std::string>(const std::string&)> assign;
  /// The present value as text; before parsing: the default.
  std::function<std::string()> show;
  std::string group = "This program";
  detail::FlagShown shown = detail::FlagShown::always;
  bool must_match = false;  // the same on all workers and servers
  bool evaluates = false;   // without effect where the loop trains alone, --mode train
};

/// A flag `--name VALUE` that sets `*variable`, whose present value is the default. The variable
/// must outlive the parsing. `range`: the least and the most. A bool is a switch: `--name` sets it,
/// `--no-name` clears it.
[[nodiscard]] Flag flag(std::string name, std::int64_t* variable, std::string help,
                        std::pair<std::int64_t, std::int64_t> range = {INT64_MIN, INT64_MAX});
[[nodiscard]] Flag flag(std::string name, double* variable, std::string help);
[[nodiscard]] Flag flag(std::string name, std::string* variable, std::string help);
[[nodiscard]] Flag flag(std::string name, bool* variable, std::string help);

/// A setting of Troupe's that only some programs read: a program has the flag, and the option has
/// an effect, where its list of flags has this. Elsewhere it is unknown, so that nobody sets what
/// nobody reads.
///   "learning-rate", "momentum", "weight-decay"   options.train, for create_model
///   "data-dir", "train-examples"                  options.data, for create_datasets
/// Parsing throws: ConfigError for another name.
[[nodiscard]] Flag flag(std::string name);

}  // namespace troupe
