// Helpers of this folder: what a command line gives, and what it is refused with.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "troupe/cli/command_line.h"
#include "troupe/core/error.h"

namespace troupe::testing {

using Words = std::vector<std::string>;

/// A program that reads all that programs may read.
inline std::vector<Flag> all_flags(std::vector<Flag> extra = {}) {
  for (const char* name :
       {"learning-rate", "momentum", "weight-decay", "data-dir", "train-examples"})
    extra.push_back(flag(name));
  return extra;
}

inline Options parsed(const Words& arguments, const Environment& environment = {},
                      std::vector<Flag> extra = {}) {
  Outcome outcome = parse_command_line(arguments, environment, all_flags(std::move(extra)));
  if (!outcome.options) throw std::logic_error("printed: " + outcome.text);
  return std::move(*outcome.options);
}

/// The message that `call` is refused with; "" where it is accepted.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

inline std::string refusal(const Words& arguments, const Environment& environment = {}) {
  return message_of([&] { (void)parse_command_line(arguments, environment, all_flags()); });
}

inline bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

inline std::string write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace troupe::testing
