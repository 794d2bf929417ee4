#include "troupe/train/callbacks/profile_file.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void throw_not_written(const std::string& path, const std::string& why) {
  throw EnvironmentError(text("the profile \"", path, "\" cannot be written: ", why, "."),
                         "train in a directory that is writable, on a disk that is not full.");
}

/// Names come from users' code, too: bytes that are no UTF-8 are replaced.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : path_(path), out_(path, std::ios::trunc) {
    out_ << "{\"traceEvents\": [";
  }
  void add(const ordered_json& event) {
    out_ << separator_ << dump(event);
    separator_ = ",\n";
  }
  void close(const ordered_json& facts) {
    out_ << "\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": " << dump(facts) << "}\n"
         << std::flush;
    if (!out_) throw_not_written(path_, "the system refused it");
  }

 private:
  static std::string dump(const ordered_json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  const std::string path_;
  std::ofstream out_;
  const char* separator_ = "\n";
};

ordered_json name_event(const char* what, std::size_t process, std::size_t thread,
                        const std::string& name) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", process + 1},
          {"tid", thread},
          {"args", {{"name", name}}}};
}

void add_worker(TraceFile& file, std::size_t process, const WorkerProfile& worker, double origin) {
  file.add(name_event("process_name", process, 0, worker.process));
  // Both are counted from 1: to viewers, 0 is the system's idle process.
  for (std::size_t i = 0; i < worker.trace.threads.size(); ++i) {
    file.add(name_event("thread_name", process, i + 1, worker.trace.threads[i]));
  }
  for (const TracedInterval& interval : worker.trace.intervals) {
    ordered_json event = {{"name", interval.name},
                          {"cat", "troupe"},
                          {"ph", "X"},
                          {"ts", (static_cast<double>(interval.start) - origin) / 1e3},
                          {"dur", static_cast<double>(interval.duration) / 1e3},
                          {"pid", process + 1},
                          {"tid", interval.thread + 1}};
    if (interval.bytes > 0) event["args"] = {{"bytes", interval.bytes}};
    file.add(event);
  }
}

}  // namespace

std::vector<std::byte> encode(const WorkerProfile& profile) {
  json document = {{"process", profile.process},
                   {"clock", profile.clock},
                   {"threads", profile.trace.threads},
                   {"dropped", profile.trace.dropped}};
  document["meetings"] = json::array();
  for (const Meeting& met : profile.meetings)
    document["meetings"].push_back({met.before, met.after});
  // One list for each kind of number: a key for every interval would double the bytes.
  for (const char* name : {"names", "starts", "durations", "on", "bytes"}) {
    document[name] = json::array();
  }
  for (const TracedInterval& interval : profile.trace.intervals) {
    // CBOR takes text in UTF-8 alone; names are the bytes of other people's code.
    document["names"].push_back(json::binary({interval.name.begin(), interval.name.end()}));
    document["starts"].push_back(interval.start);
    document["durations"].push_back(interval.duration);
    document["on"].push_back(interval.thread);
    document["bytes"].push_back(interval.bytes);
  }
  const std::vector<std::uint8_t> encoded = json::to_cbor(document);
  const auto* begin = reinterpret_cast<const std::byte*>(encoded.data());
  return {begin, begin + encoded.size()};
}

WorkerProfile decode_profile(Span<const std::byte> bytes) try {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const json document = json::from_cbor(begin, begin + bytes.size());
  WorkerProfile profile;
  profile.process = document.at("process").get<std::string>();
  profile.clock = document.at("clock").get<std::string>();
  profile.trace.threads = document.at("threads").get<std::vector<std::string>>();
  profile.trace.dropped = document.at("dropped").get<std::uint64_t>();
  for (const json& met : document.at("meetings")) {
    profile.meetings.push_back({met.at(0).get<std::int64_t>(), met.at(1).get<std::int64_t>()});
  }
  const json& names = document.at("names");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& name = names.at(i).get_binary();
    TracedInterval interval;
    interval.name.assign(name.begin(), name.end());
    interval.start = document.at("starts").at(i).get<std::int64_t>();
    interval.duration = document.at("durations").at(i).get<std::int64_t>();
    interval.thread = document.at("on").at(i).get<std::uint32_t>();
    interval.bytes = document.at("bytes").at(i).get<std::uint64_t>();
    if (interval.thread >= profile.trace.threads.size()) {
      throw DesyncError("a worker's profile names a thread that it does not have.",
                        "start the same program on every worker.");
    }
    profile.trace.intervals.push_back(std::move(interval));
  }
  return profile;
} catch (const json::exception&) {
  throw DesyncError("a worker's profile cannot be read.",
                    "start the same program on every worker.");
}

ClockOffset offset_between(const WorkerProfile& reference, const WorkerProfile& other) {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  const std::size_t count = std::min(reference.meetings.size(), other.meetings.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Meeting& here = reference.meetings[i];
    const Meeting& there = other.meetings[i];
    least = std::max(least, static_cast<double>(there.before - here.after));
    most = std::min(most, static_cast<double>(there.after - here.before));
  }
  // One name, and the meetings do not contradict it.
  if (reference.clock == other.clock && least <= 0 && most >= 0) return {0, 0};
  if (count == 0) return {0, std::numeric_limits<double>::infinity()};
  return {(least + most) / 2, (most - least) / 2};
}

void write_profile(const std::string& path, const std::vector<WorkerProfile>& workers,
                   const ProfiledSteps& steps) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path(), error);
  if (error) throw_not_written(path, error.message());
  std::vector<ClockOffset> offsets;
  double origin = std::numeric_limits<double>::infinity();  // of the reference's clock
  for (const WorkerProfile& worker : workers) {
    offsets.push_back(offset_between(workers.front(), worker));
    for (const TracedInterval& interval : worker.trace.intervals) {
      origin = std::min(origin, static_cast<double>(interval.start) - offsets.back().ns);
    }
  }
  TraceFile file(path);
  ordered_json facts = {{"first_step", steps.first}, {"last_step", steps.last}};
  facts["clocks"] = ordered_json::array();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    add_worker(file, i, workers[i], origin + offsets[i].ns);
    // Infinity, which JSON lacks, is written as null.
    facts["clocks"].push_back({{"process", workers[i].process},
                               {"offset_us", offsets[i].ns / 1e3},
                               {"error_us", offsets[i].error / 1e3},
                               {"dropped", workers[i].trace.dropped}});
  }
  file.close(facts);
}

std::string clock_name() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(boot, id);
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/time", error);
  if (id.empty()) return text("process ", getpid());
  return id + " " + (error ? std::string() : space.string());
}

}  // namespace troupe::detail
