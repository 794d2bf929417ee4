#include "troupe/train/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr const char* kTemporary = ".tmp-";  // being written
constexpr const char* kDeleted = ".del-";    // being deleted

const RetentionOptions& checked(const RetentionOptions& options) {
  if (options.keep_max < 0 || !(options.keep_every > Seconds(0))) {
    throw ConfigError(
        text("checkpoint retention of ", options.keep_max, " checkpoints and one per ",
             options.keep_every.count(), " s is not possible."),
        "keep 0 (all) or more, and a span above 0.");
  }
  return options;
}

FileSystem& with_root(FileSystem& files) {
  files.create_root();
  return files;
}

/// Whether `name` is a checkpoint's with one of our suffixes and a process id behind it.
bool is_leftover(const std::string& name) {
  for (const char* const suffix : {kTemporary, kDeleted}) {
    const std::size_t at = name.rfind(suffix);
    if (at == std::string::npos || !step_of(std::string_view(name).substr(0, at))) continue;
    const std::string pid = name.substr(at + std::string_view(suffix).size());
    if (!pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos) return true;
  }
  return false;
}

void check_names(const std::vector<CheckpointFile>& files) {
  std::set<std::string> names;
  for (const CheckpointFile& file : files) {
    if (!is_file_name(file.name) || !names.insert(file.name).second) {
      throw CheckpointError(text("a checkpoint cannot hold a file called '", file.name, "'."),
                            "use each name once, of letters, digits, '.', '_' and '-'.");
    }
  }
}

/// A file that is not in the manifest, so not ours; unset: all are.
std::optional<std::string> foreign_file(FileSystem& files, const CheckpointInfo& known) {
  std::set<std::string> names = {kManifestName, kMarkerName};
  for (const CheckpointFileInfo& file : known.files) names.insert(file.name);
  for (const DirectoryEntry& entry : files.list(checkpoint_name(known.step))) {
    if (entry.type != FileType::file || names.count(entry.name) == 0) return entry.name;
  }
  return std::nullopt;
}

CheckpointFileInfo write_file(FileSystem& files, const std::string& directory,
                              const CheckpointFile& file) {
  CheckpointFileInfo info{file.name, 0, ""};
  Sha256 digest;
  const auto writer = files.create_file(directory + "/" + file.name);
  file.write([&](Span<const std::byte> bytes) {
    writer->write(bytes);
    digest.update(bytes);
    info.bytes += bytes.size();
  });
  writer->sync();
  writer->close();
  info.sha256 = digest.hex();
  return info;
}

}  // namespace

CheckpointWriter::CheckpointWriter(FileSystem& files, const LockOwner& owner,
                                   const RetentionOptions& retention, WallClock clock)
    : files_(files),
      owner_(owner),
      retention_(checked(retention)),
      clock_(std::move(clock)),
      reader_(files),
      lock_(with_root(files), owner) {
  keep_after_ = now() + keep_span();
  if (const auto index = usable_index(files_)) {
    retained_ = index->retained;
    // Of former starts, or a job that is restarted more often would never keep one.
    if (index->keep_after) keep_after_ = std::min(keep_after_, *index->keep_after);
    // One that somebody has removed is the best no longer.
    if (index->best && files_.status(checkpoint_name(index->best->step))) best_ = index->best;
  } else {
    for (const CheckpointInfo& info : reader_.all()) retained_.push_back(info.step);
  }
  for (const DirectoryEntry& entry : files_.list("")) {
    if (is_leftover(entry.name)) discard_quietly(entry.name);
  }
}

CheckpointInfo CheckpointWriter::save(std::int64_t step, const std::vector<CheckpointFile>& files,
                                      const nlohmann::json& extras) {
  TROUPE_CHECK(step >= 0);
  check_names(files);
  lock_.check();
  const std::string temporary = suffixed(step, kTemporary);
  CheckpointInfo info;
  try {
    if (files_.status(temporary)) discard(temporary);
    info = stage(temporary, step, files, extras);
    lock_.check();  // a process that took over meanwhile has the last word
    publish(temporary, info);
  } catch (...) {
    discard_quietly(temporary);
    throw;
  }
  retain(step);
  return info;
}

CheckpointInfo CheckpointWriter::stage(const std::string& temporary, std::int64_t step,
                                       const std::vector<CheckpointFile>& files,
                                       const nlohmann::json& extras) {
  CheckpointInfo info;
  info.step = step;
  info.written_at = now();
  info.extras = extras;
  files_.create_directory(temporary);
  files_.create_file(temporary + "/" + kMarkerName)->close();
  // Durable before the files, so that what a crash leaves is known as ours and can be removed.
  files_.sync_directory(temporary);
  for (const CheckpointFile& file : files) {
    info.files.push_back(write_file(files_, temporary, file));
  }
  const std::string manifest = write_manifest(info);
  write_file(files_, temporary,
             {kManifestName, [&](const ByteSink& sink) {
                sink(as_bytes(Span<const char>(manifest.data(), manifest.size())));
              }});
  files_.sync_directory(temporary);
  return info;
}

void CheckpointWriter::publish(const std::string& temporary, const CheckpointInfo& info) {
  const std::string name = checkpoint_name(info.step);
  if (is_saved_already(info)) {
    discard(temporary);
    files_.sync_directory("");  // the save before may have failed just there
    return;
  }
  if (files_.status(name)) {
    CheckpointInfo known = info;
    try {
      const CheckpointInfo there = reader_.open(info.step);
      known.files.insert(known.files.end(), there.files.begin(), there.files.end());
    } catch (const CheckpointError&) {  // damaged: it may hold what the new one holds
    }
    move_aside(known);
  }
  files_.rename(temporary, name);
  files_.sync_directory("");
}

bool CheckpointWriter::is_saved_already(const CheckpointInfo& info) {
  if (!files_.status(checkpoint_name(info.step))) return false;
  try {
    const CheckpointInfo there = reader_.open(info.step);
    if (!same_content(there, info)) return false;
    reader_.verify(there);
    return true;
  } catch (const CheckpointError& error) {
    log_warning(checkpoint_name(info.step), " is replaced: ", error.cause());
    return false;
  }
}

/// Takes the checkpoint of that step out of the way; `known` are the files that it may consist of.
void CheckpointWriter::move_aside(const CheckpointInfo& known) {
  const std::string name = checkpoint_name(known.step);
  const auto found = files_.status(name);
  const bool ours = found->type == FileType::directory && files_.status(name + "/" + kMarkerName);
  const auto foreign = ours ? foreign_file(files_, known) : std::nullopt;
  if (!ours || foreign) {
    throw CheckpointError(text("'", files_.shown(name), "' is in the way of a checkpoint and ",
                               foreign ? text("holds '", *foreign, "', which Troupe did not write")
                                       : std::string("was not written by Troupe"),
                               "."),
                          "move it to another place.");
  }
  const std::string aside = suffixed(known.step, kDeleted);
  if (files_.status(aside)) discard(aside);
  files_.rename(name, aside);
  // Durable before its files go, so that a checkpoint's name never stands for half of it.
  files_.sync_directory("");
}

void CheckpointWriter::write_index(std::int64_t latest, std::vector<std::int64_t> retained) {
  troupe::write_index(files_, {latest, std::move(retained), best_, keep_after_});
}

void CheckpointWriter::retain(std::int64_t step) {
  retained_.erase(std::remove(retained_.begin(), retained_.end(), step), retained_.end());
  retained_.push_back(step);
  const std::size_t keep =
      retention_.keep_max == 0 ? retained_.size() : static_cast<std::size_t>(retention_.keep_max);
  const std::size_t surplus = retained_.size() - std::min(keep, retained_.size());
  const auto kept = retained_.begin() + static_cast<std::ptrdiff_t>(surplus);
  const std::vector<std::int64_t> retired(retained_.begin(), kept);
  // The index first: a name in it never stands for a checkpoint that we removed.
  write_index(step, {kept, retained_.end()});
  retained_.erase(retained_.begin(), kept);
  std::vector<std::int64_t> left;
  const std::int64_t kept_after = keep_after_;
  for (const std::int64_t old : retired) {
    if (!remove(old)) left.push_back(old);
  }
  if (!left.empty() || keep_after_ != kept_after) remember(left, step);
  discard_quietly(suffixed(step, kDeleted));  // what publish replaced
}

/// The next save tries again to delete `left`, also one of a later process.
void CheckpointWriter::remember(const std::vector<std::int64_t>& left, std::int64_t latest) {
  retained_.insert(retained_.begin(), left.begin(), left.end());
  try {
    write_index(latest, retained_);
  } catch (const CheckpointError& error) {
    log_warning("only this process knows what is still to be deleted: ", error.cause());
  }
}

void CheckpointWriter::adopt(std::int64_t step) {
  lock_.check();
  if (retained_.empty() || retained_.back() != step) retain(step);
}

void CheckpointWriter::mark_best(const BestCheckpoint& best) {
  TROUPE_CHECK(!retained_.empty());
  lock_.check();
  const auto is_retained = [&](std::int64_t step) {
    return std::find(retained_.begin(), retained_.end(), step) != retained_.end();
  };
  if (best_ && best_->step != best.step && !is_retained(best_->step)) {
    retained_.insert(retained_.begin(), best_->step);
  }
  best_ = best;
  write_index(retained_.back(), retained_);
}

/// Whether nothing is left to do.
bool CheckpointWriter::remove(std::int64_t step) {
  if (best_ && best_->step == step) return true;  // mark_best sees to it when another one is
  const std::string name = checkpoint_name(step);
  try {
    if (!files_.status(name)) return true;  // someone else removed it
    const CheckpointInfo info = reader_.open(step);
    if (info.written_at > keep_after_) {
      keep_after_ += keep_span();
      return true;  // one for this span, for ever
    }
    move_aside(info);
  } catch (const CheckpointError& error) {
    if (not_deleted_.insert(step).second) log_warning(name, " is not deleted: ", error.cause());
    return false;
  }
  discard_quietly(suffixed(step, kDeleted));  // the next writer removes what is left of it
  return true;
}

/// Deletes a directory under a temporary name: whole if it bears our marker, else only if empty.
void CheckpointWriter::discard(const std::string& directory) {
  const std::string marker = directory + "/" + kMarkerName;
  const bool ours = files_.status(marker).has_value();
  for (const DirectoryEntry& entry : files_.list(directory)) {
    if (ours && entry.name == kMarkerName) continue;
    const std::string path = directory + "/" + entry.name;
    if (!ours || entry.type != FileType::file) {
      throw CheckpointError(text("'", files_.shown(path), "' was not written by Troupe."),
                            "move it to another place.");
    }
    files_.remove_file(path);
  }
  if (ours) {  // last, for the same reason
    files_.sync_directory(directory);
    files_.remove_file(marker);
  }
  files_.remove_directory(directory);
}

void CheckpointWriter::discard_quietly(const std::string& directory) {
  try {
    const auto found = files_.status(directory);
    if (found && found->type == FileType::directory) discard(directory);
  } catch (const CheckpointError& error) {
    log_warning("'", files_.shown(directory), "' is left behind: ", error.cause());
  }
}

std::int64_t CheckpointWriter::keep_span() const {
  constexpr double kMost = 1e12;  // 30,000 years: the sum with a time of today fits
  return static_cast<std::int64_t>(std::ceil(std::min(retention_.keep_every.count(), kMost)));
}

std::int64_t CheckpointWriter::now() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock_().time_since_epoch()).count();
}

std::string CheckpointWriter::suffixed(std::int64_t step, const char* suffix) const {
  return text(checkpoint_name(step), suffix, owner_.pid);
}

}  // namespace troupe
