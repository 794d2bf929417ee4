// The names of event files, by which readers find them and know their order:
// events.out.tfevents.<seconds since 1970, 10 digits>.<machine>.<process>.<count>
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct EventFileName {
  std::uint64_t seconds = 0;  // 0: the name says none
  std::string name;           // within its directory
};

/// The event files of `directory`, by seconds, then by name; of other writers, too. Empty where the
/// directory is missing. Throws: EnvironmentError where it cannot be listed.
[[nodiscard]] std::vector<EventFileName> list_event_files(const std::string& directory);

/// A name of this process, without the count.
[[nodiscard]] std::string event_file_stem(std::uint64_t seconds);

/// The largest number of seconds that a name has room for.
inline constexpr std::uint64_t kMaxNameSeconds = 9'999'999'999;

}  // namespace troupe
