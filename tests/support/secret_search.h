// Where the bytes of a running group's secret can be seen: by whom, and in which files.
#pragma once

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/launch_support.h"
#include "troupe/core/sha256.h"

namespace troupe::testing {

inline constexpr const char* kMemoryFile = "/memfd:troupe-secret";

/// "" for what cannot be read, such as a directory, or a process that has just ended.
inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

/// Base 64 (RFC 4648, section 4) of whole groups of three bytes.
inline std::string base64(const std::string& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i + 3 <= bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | static_cast<unsigned char>(bytes[i + j]);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[group >> shift & 63];
  }
  return text;
}

/// What half of a secret looks like, in all the ways in which programs write bytes.
inline std::vector<std::string> needles_of(const std::string& secret) {
  const std::string half = secret.substr(0, 18);
  const std::string hex = hex_of({reinterpret_cast<const std::byte*>(half.data()), half.size()});
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string url = base64(half);
  for (char& c : url) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return {half, hex, upper, base64(half), url};
}

/// Appends `place` for every needle in `text`.
inline void search(const std::string& text, const std::string& place,
                   const std::vector<std::string>& needles, std::vector<std::string>& hits) {
  for (const std::string& needle : needles)
    if (has(text, needle)) hits.push_back(place);
}

/// Every process of this machine, every file below `folder`.
inline std::vector<std::string> places_of(const std::vector<std::string>& needles,
                                          const std::filesystem::path& folder) {
  std::vector<std::string> hits;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(process.path().filename().string()[0]))) continue;
    for (const char* file : {"cmdline", "environ", "maps"})
      search(content_of(process.path() / file), (process.path() / file).string(), needles, hits);
  }
  std::error_code gone;  // a checkpoint may be deleted meanwhile
  for (std::filesystem::recursive_directory_iterator at(folder, gone), end; at != end;
       at.increment(gone))
    search(content_of(at->path()), at->path().string(), needles, hits);
  return hits;
}

/// Open files of a process that hold a secret.
inline std::vector<std::string> secret_files(const std::string& process) {
  std::vector<std::string> found;
  std::error_code gone;
  for (std::filesystem::directory_iterator at("/proc/" + process + "/fd", gone), end; at != end;
       at.increment(gone))
    if (has(std::filesystem::read_symlink(at->path(), gone).string(), kMemoryFile))
      found.push_back(at->path());
  return found;
}

/// The process that carries `marker` and `variable` ("NAME=value"); "": none.
inline std::string process_with(const std::string& marker, const std::string& variable) {
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string environment = content_of(process.path() / "environ");
    if (has(environment, marker) && has(environment, variable + '\0'))
      return process.path().filename().string();
  }
  return "";
}

}  // namespace troupe::testing
