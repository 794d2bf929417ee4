// EventFile: scalars by step in the format that TensorBoard reads: TFRecord frames around
// hand-encoded protocol-buffer messages. docs/summaries.md has the byte table.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The names of event files, by which readers find them and know their order:
/// events.out.tfevents.<seconds since 1970, 10 digits>.<machine>.<process>.<count>
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

struct Scalar {
  std::string tag;  // UTF-8: "loss", "global_step/sec"
  double value = 0;
};

/// Seconds since 1970.
using WallTime = double;

class EventFile {
 public:
  /// Makes a new file in `directory`, which must exist:
  /// events.out.tfevents.<seconds>.<host>.<pid>.<count>. Throws: EnvironmentError.
  EventFile(const std::string& directory, WallTime now);

  /// Tells readers that a run starts at `step`: what older files say of this step and later ones is
  /// of a run that was given up.
  void write_session_start(std::int64_t step, WallTime now);
  /// Values that are not finite are written as they are. Throws: EnvironmentError.
  void write_scalars(std::int64_t step, const std::vector<Scalar>& scalars, WallTime now);
  void write_text(std::int64_t step, const std::string& tag, const std::string& value,
                  WallTime now);
  void flush();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void write_record(const std::string& message);

  std::string path_;
  std::ofstream out_;
};

}  // namespace troupe
