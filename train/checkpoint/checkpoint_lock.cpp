#include "troupe/train/checkpoint/checkpoint_lock.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxRecordBytes = 4096;
constexpr std::size_t kRecordBytes = 512;  // but for the longest names of machines

/// Of one size, so that nobody who reads while it is written finds less than a record.
std::string line_of(const json& record) {
  std::string line = record.dump(-1, ' ', true, json::error_handler_t::replace);
  line.resize(std::max(line.size(), kRecordBytes - 1), ' ');
  return line + "\n";
}

/// An object; empty for an empty or damaged record.
json parsed(const std::string& record, const std::string& shown) try {
  if (record.empty()) return json::object();
  json read = parse_strict_json(as_bytes(Span<const char>(record.data(), record.size())), shown);
  return read.is_object() ? std::move(read) : json::object();
} catch (const CheckpointError&) {
  return json::object();
}

/// Unset for a record without one.
std::optional<LockOwner> owner_in(const std::string& record, const std::string& shown) try {
  const json read = parsed(record, shown);
  return LockOwner{read.at("machine").get<std::string>(), read.at("pid").get<std::int64_t>(),
                   read.at("generation").get<std::uint64_t>(),
                   read.value("started", std::uint64_t{0})};
} catch (const json::exception&) {
  return std::nullopt;
}

std::string described(const std::optional<LockOwner>& owner) {
  if (!owner) return "another process";
  return text("process ", owner->pid, " on machine '", owner->machine, "' (generation ",
              owner->generation, ")");
}

std::string read_record(FileSystem& files) {
  const auto bytes = files.read_file(kLockName, kMaxRecordBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::optional<std::uint64_t> generation_on_record(FileSystem& files) {
  constexpr auto kPause = std::chrono::milliseconds(5);
  for (int looks = 20; looks > 0 && files.status(kLockName); --looks) {
    const json record = parsed(read_record(files), files.shown(kLockName));
    const auto generation = record.find("generation");
    if (generation != record.end() && generation->is_number_unsigned())
      return generation->get<std::uint64_t>();
    std::this_thread::sleep_for(kPause);  // it may be half of two, one over the other
  }
  return std::nullopt;
}

LockOwner this_process(std::uint64_t generation) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name[0] = '?';
  const std::int64_t pid = ::getpid();
  return {name.data(), pid, generation, process_start(pid).value_or(0)};
}

std::optional<std::uint64_t> process_start(std::int64_t pid) {
  std::ifstream file(text("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // "12 (a name) S 1 ...": the name may hold anything. The start is the 22nd value; see proc(5).
  std::istringstream values(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string value;
  for (int number = 3; number < 22; ++number) values >> value;
  std::uint64_t start = 0;
  if (!(values >> start)) return std::nullopt;
  return start;
}

CheckpointLock::CheckpointLock(FileSystem& files, const LockOwner& owner)
    : files_(files), lock_(files.try_lock(kLockName)) {
  const std::string shown = files.shown(kLockName);
  const auto last = owner_in(lock_ ? lock_->read() : read_record(files), shown);
  // Where nothing keeps others out the record has to tell whether its process lives.
  const bool lives = lock_ && !lock_->is_enforced() && last && last->machine == owner.machine &&
                     process_start(last->pid) == last->started && last->pid != owner.pid;
  if (!lock_ || lives) {
    throw EnvironmentError(
        text("'", files.shown(""), "' is in use: ", described(last), " writes checkpoints there."),
        "end that process, or give this run a model directory of its own.");
  }
  if (last && last->machine != owner.machine && last->generation >= owner.generation) {
    throw EnvironmentError(text("'", files.shown(""), "' is in use: ", described(last),
                                " wrote checkpoints there and "
                                "did not shut down cleanly."),
                           text("make sure that process has ended, then remove '", shown,
                                "', or start as a later --generation."));
  }
  if (last) log_info(shown, ": taken over from ", described(last), ", which has ended");
  // A clock that was set back does not make this start an earlier one than the last.
  const std::uint64_t generation =
      last ? std::max(owner.generation, last->generation) : owner.generation;
  record_ = line_of({{"machine", owner.machine},
                     {"pid", owner.pid},
                     {"started", owner.started},
                     {"generation", generation}});
  // What a process that has ended in order leaves: nobody's, and still of its start.
  last_record_ = line_of({{"generation", generation}});
  lock_->write(record_);
}

CheckpointLock::~CheckpointLock() {
  try {
    if (read_record(files_) == record_) lock_->write(last_record_);
  } catch (const std::exception& error) {
    log_warning("the checkpoint lock could not be released: ", error.what());
  }
}

void CheckpointLock::check() const {
  const std::string record = files_.status(kLockName) ? read_record(files_) : std::string();
  if (record == record_) return;
  throw CheckpointError(
      text("'", files_.shown(""), "' is no longer this process's: ",
           record.empty() ? "its lock was removed"
                          : described(owner_in(record, files_.shown(kLockName))) + " took over",
           "."),
      "let one process write a model directory; end the other one and start again.");
}

}  // namespace troupe
