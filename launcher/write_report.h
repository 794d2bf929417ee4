// `troupe report`: writes the page of report/page/report_page.h for one model directory or two.
#pragma once

#include <string>
#include <vector>

namespace troupe {

/// `arguments`: what follows the word "report". Prints the path of the file that it wrote; a file
/// of that name is replaced once the new one is complete. Returns the exit code.
/// Throws: ConfigError; EnvironmentError if a file cannot be read or written.
[[nodiscard]] int write_report(const std::vector<std::string>& arguments);

/// What `troupe help report` prints.
[[nodiscard]] std::string report_help();

}  // namespace troupe
