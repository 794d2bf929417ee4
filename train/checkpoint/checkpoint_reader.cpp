#include "troupe/train/checkpoint/checkpoint_reader.h"

#include <algorithm>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

// How often the writer may finish a checkpoint while one is being looked for.
constexpr int kMaxRestarts = 100;

[[noreturn]] void damaged(const std::string& shown, const std::string& what) {
  throw CheckpointError(text("'", shown, "' ", what, "."),
                        "the checkpoint is damaged; use another one, or restore this from a copy.");
}

}  // namespace

CheckpointInfo CheckpointReader::open(std::int64_t step) {
  const std::string name = checkpoint_name(step);
  const auto found = files_.status(name);
  if (!found) damaged(files_.shown(name), "is not there");
  if (found->type != FileType::directory) damaged(files_.shown(name), "is not a directory");
  const std::string path = name + "/" + kManifestName;
  if (!files_.status(path)) damaged(files_.shown(name), "has no manifest.json");
  CheckpointInfo info =
      read_manifest(files_.read_file(path, kMaxManifestBytes), files_.shown(path));
  if (info.step != step) {
    damaged(files_.shown(path), text("is the manifest of ", checkpoint_name(info.step)));
  }
  for (const CheckpointFileInfo& file : info.files) {
    const std::string file_path = name + "/" + file.name;
    const auto status = files_.status(file_path);
    if (!status) damaged(files_.shown(file_path), "is missing");
    if (status->type != FileType::file) damaged(files_.shown(file_path), "is not a regular file");
    if (status->bytes != file.bytes) {
      damaged(files_.shown(file_path),
              text("has ", status->bytes, " bytes instead of ", file.bytes));
    }
  }
  return info;
}

std::vector<std::byte> CheckpointReader::read(const CheckpointInfo& info,
                                              const std::string& file_name) {
  const std::string path = checkpoint_name(info.step) + "/" + file_name;
  const auto file = std::find_if(info.files.begin(), info.files.end(),
                                 [&](const auto& each) { return each.name == file_name; });
  if (file == info.files.end()) damaged(files_.shown(path), "is not in the manifest");
  std::vector<std::byte> bytes = files_.read_file(path, file->bytes);
  if (bytes.size() != file->bytes) {
    damaged(files_.shown(path), text("has ", bytes.size(), " bytes instead of ", file->bytes));
  }
  Sha256 digest;
  digest.update(bytes);
  if (digest.hex() != file->sha256) {
    damaged(files_.shown(path), "is not what was saved: its SHA-256 differs");
  }
  return bytes;
}

std::vector<std::byte> CheckpointReader::read_start(const CheckpointInfo& info,
                                                    const std::string& file_name,
                                                    std::uint64_t count) {
  return files_.read_start(checkpoint_name(info.step) + "/" + file_name, count);
}

void CheckpointReader::verify(const CheckpointInfo& info) {
  for (const CheckpointFileInfo& file : info.files) static_cast<void>(read(info, file.name));
}

std::optional<CheckpointInfo> CheckpointReader::latest() {
  return load_latest([this](const CheckpointInfo& info) { verify(info); });
}

std::optional<CheckpointInfo> CheckpointReader::load_latest(
    const std::function<void(const CheckpointInfo&)>& load) {
  std::vector<Failure> failures;
  for (int restart = 0; restart <= kMaxRestarts; ++restart) {
    failures.clear();
    const std::string before = index_text();
    const auto index = usable_index(files_);
    std::vector<std::int64_t> steps = steps_on_disk();
    if (index) {
      steps.erase(std::remove(steps.begin(), steps.end(), index->latest), steps.end());
      steps.insert(steps.begin(), index->latest);
    }
    bool changed = false;
    for (const std::int64_t step : steps) {
      try {
        CheckpointInfo info = open(step);
        load(info);
        for (const Failure& failure : failures) {
          log_warning(checkpoint_name(failure.step), " is not used: ", failure.message, " Using ",
                      checkpoint_name(step), ".");
        }
        return info;
      } catch (const CheckpointError& error) {
        failures.push_back({step, error.cause()});
        // Saved and removed meanwhile: look again instead of going back further than needed.
        changed = index_text() != before;
        if (changed) break;
      }
    }
    if (!changed) break;
  }
  if (failures.empty()) return std::nullopt;
  std::string cause = text("no checkpoint in '", files_.shown(""), "' can be used:");
  for (const Failure& failure : failures) cause += " " + failure.message;
  throw CheckpointError(cause, "restore one from a copy, or start afresh in an empty directory.");
}

std::vector<CheckpointInfo> CheckpointReader::all() {
  std::vector<CheckpointInfo> good;
  for (const std::int64_t step : steps_on_disk()) {
    try {
      good.push_back(open(step));
    } catch (const CheckpointError& error) {
      log_warning(checkpoint_name(step), " is not used: ", error.cause());
    }
  }
  std::reverse(good.begin(), good.end());
  return good;
}

std::vector<std::int64_t> CheckpointReader::steps_on_disk() {
  std::vector<std::int64_t> steps;
  if (!files_.status("")) return steps;
  for (const DirectoryEntry& entry : files_.list("")) {
    const auto step = step_of(entry.name);
    if (!step) continue;
    // A link may lead to a checkpoint: refused with a reason, not overlooked.
    const bool is_ours =
        entry.type == FileType::symlink ||
        (entry.type == FileType::directory && (files_.status(entry.name + "/" + kManifestName) ||
                                               files_.status(entry.name + "/" + kMarkerName)));
    if (is_ours) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::string CheckpointReader::index_text() {
  try {
    if (!files_.status(kIndexName)) return "";
    const auto bytes = files_.read_file(kIndexName, kMaxIndexBytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

}  // namespace troupe
