#include "troupe/train/checkpoint/checkpoint_lock.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
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
                   read.at("generation").get<std::uint64_t>()};
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
  return {name.data(), ::getpid(), generation};
}

CheckpointLock::CheckpointLock(FileSystem& files, const LockOwner& owner)
    : files_(files), lock_(files.try_lock(kLockName)) {
  const std::string shown = files.shown(kLockName);
  const auto last = owner_in(lock_ ? lock_->read() : read_record(files), shown);
  if (!lock_) {
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
  record_ = line_of({{"machine", owner.machine}, {"pid", owner.pid}, {"generation", generation}});
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
