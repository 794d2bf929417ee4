// A file below /proc, of a process that may end while it is read: then that is the end of the file.
// An istreambuf_iterator would throw.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace troupe::testing {

[[nodiscard]] inline std::string process_file(const std::string& process, const std::string& name) {
  std::ostringstream all;
  all << std::ifstream("/proc/" + process + "/" + name, std::ios::binary).rdbuf();
  return all.str();
}

}  // namespace troupe::testing
