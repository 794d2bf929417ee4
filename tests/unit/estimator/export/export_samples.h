// What tests of exports share: a clock that only waiting moves, offers, and what is on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/text.h"
#include "troupe/export/export_directory.h"
#include "troupe/export/exporter_world.h"

namespace troupe::testing {

inline constexpr std::int64_t kFirstSecond = 1'700'000'000;

/// Wall clock and sleeper in one: only sleep moves the time.
class FakeTime {
 public:
  std::int64_t now = kFirstSecond;
  int sleeps = 0;
  bool stands_still = false;

  void sleep(Seconds duration) {
    ++sleeps;
    if (!stands_still) now += static_cast<std::int64_t>(duration.count());
  }
};

/// A world in which `time` passes.
[[nodiscard]] inline ExporterWorld world_of(const std::shared_ptr<FakeTime>& time) {
  return {[time] { return time->now; }, [time](Seconds duration) { time->sleep(duration); }};
}

inline void write_text(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << content;
}

[[nodiscard]] inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The names in a directory; none where it is missing.
[[nodiscard]] inline std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  if (!std::filesystem::exists(directory)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// An offer of an evaluation with the given loss; its model is one file.
[[nodiscard]] inline ExportOffer offer_of(const std::filesystem::path& directory, std::int64_t step,
                                          double loss) {
  ExportOffer offer;
  offer.export_directory = directory.string();
  offer.checkpoint = text("model.ckpt-", step);
  offer.evaluation = {step, {{"loss", loss}}};
  offer.evaluation_directory = "eval";
  offer.write_model = [step](const std::string& to) {
    write_text(std::filesystem::path(to) / "model.pt", text("model of step ", step));
  };
  return offer;
}

}  // namespace troupe::testing
