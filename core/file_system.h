// FileSystem: the only interface between Troupe and the files below one directory, the root.
// Crash-safe writes consist of steps that a test can interrupt, fail or reorder.
//
// Paths are relative to the root ("model.ckpt-5/manifest.json"); "" is the root. The root may be
// reached through a symbolic link, but nothing below it is: links are refused, never followed.
// Absolute paths and the components "." and ".." are refused. A completed step is visible to other
// processes; it survives a loss of power only once the sync that its contract names has returned.
// Errors: CheckpointError with path and the system's reason. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/span.h"

namespace troupe {

enum class FileType { file, directory, symlink, other };

struct DirectoryEntry {
  std::string name;
  FileType type = FileType::other;
};

struct FileStatus {
  FileType type = FileType::other;
  std::uint64_t bytes = 0;
};

/// A new file that is being written. The destructor closes it and reports nothing.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  /// Appends all of `bytes`.
  virtual void write(Span<const std::byte> bytes) = 0;
  /// The content survives a loss of power when this returns; the name needs sync_directory.
  /// After a failure the content is unknown, even if a second call succeeds: write a new file.
  virtual void sync() = 0;
  /// Some file systems report a failed write only here.
  virtual void close() = 0;
};

/// An exclusive lock, held by this object and released when it or the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
  /// The content of the lock's file, at most 4 KiB; "" if nothing was written to it.
  [[nodiscard]] virtual std::string read() const = 0;
  /// Whether the file system keeps other processes out. Without locks it does not: what was read
  /// has to say whether somebody is there.
  [[nodiscard]] virtual bool is_enforced() const { return true; }
  /// In place: who reads the file meanwhile finds the new record, the old one or the beginning of
  /// one and the end of the other, and never an empty file; of records of one size no longer or
  /// shorter one.
  virtual void write(const std::string& record) = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// `path` as messages show it, below the root.
  [[nodiscard]] virtual std::string shown(const std::string& path) const = 0;
  /// Makes the root and its missing parents, durably; does nothing if it exists.
  virtual void create_root() = 0;
  /// Makes a directory (mode 0777 less the umask); nothing may exist at `path`.
  /// Durable by sync_directory(parent).
  virtual void create_directory(const std::string& path) = 0;
  /// Makes a file (mode 0666 less the umask); nothing may exist at `path`. Durable by
  /// FileWriter::sync and sync_directory(parent).
  [[nodiscard]] virtual std::unique_ptr<FileWriter> create_file(const std::string& path) = 0;
  /// Moves a file over a file or to a free path, or a directory to a free path, in one step.
  /// Durable by sync_directory(parent).
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Names made, moved and removed in this directory survive a loss of power when this returns; on
  /// a file system that cannot do that, as soon as it does it by itself.
  virtual void sync_directory(const std::string& path) = 0;
  /// Makes the content of an existing file durable, as FileWriter::sync does.
  virtual void sync_file(const std::string& path) = 0;
  virtual void remove_file(const std::string& path) = 0;
  /// Removes an empty directory.
  virtual void remove_directory(const std::string& path) = 0;
  /// The entries of a directory, in no particular order.
  [[nodiscard]] virtual std::vector<DirectoryEntry> list(const std::string& path) = 0;
  /// What is at `path`; unset: nothing.
  [[nodiscard]] virtual std::optional<FileStatus> status(const std::string& path) = 0;
  /// The content of a regular file. More than `max_bytes`, and more than the process can allocate,
  /// is refused.
  [[nodiscard]] virtual std::vector<std::byte> read_file(const std::string& path,
                                                         std::uint64_t max_bytes) = 0;
  /// The first `count` bytes of a regular file, or all of a shorter one.
  [[nodiscard]] virtual std::vector<std::byte> read_start(const std::string& path,
                                                          std::uint64_t count) = 0;
  /// Locks the file at `path`, made if missing. Null: another process holds the lock, or another
  /// FileLock of this process. Does not wait. See FileLock::is_enforced.
  [[nodiscard]] virtual std::unique_ptr<FileLock> try_lock(const std::string& path) = 0;
};

/// The machine's files, by POSIX calls. Calls interrupted by a signal are repeated.
class PosixFileSystem final : public FileSystem {
 public:
  /// Touches nothing; the root need not exist yet.
  explicit PosixFileSystem(std::string root);

  [[nodiscard]] std::string shown(const std::string& path) const override;
  void create_root() override;
  void create_directory(const std::string& path) override;
  [[nodiscard]] std::unique_ptr<FileWriter> create_file(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_directory(const std::string& path) override;
  void sync_file(const std::string& path) override;
  void remove_file(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  [[nodiscard]] std::vector<DirectoryEntry> list(const std::string& path) override;
  [[nodiscard]] std::optional<FileStatus> status(const std::string& path) override;
  [[nodiscard]] std::vector<std::byte> read_file(const std::string& path,
                                                 std::uint64_t max_bytes) override;
  [[nodiscard]] std::vector<std::byte> read_start(const std::string& path,
                                                  std::uint64_t count) override;
  [[nodiscard]] std::unique_ptr<FileLock> try_lock(const std::string& path) override;

 private:
  std::string root_;
};

/// Puts a file with `content` at `name` in one step, and durably: it is written as `temporary`,
/// after removing what an interrupted call left there, and renamed. Both are in the root.
void replace_file(FileSystem& files, const std::string& name, const std::string& temporary,
                  const std::string& content);

/// Whether `c` is fit for a file's name on every system: A-Z a-z 0-9 . _ -
[[nodiscard]] constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

/// The components of `path`, none for "".
/// Throws: CheckpointError if it is absolute or has an empty, "." or ".." component or a NUL.
[[nodiscard]] std::vector<std::string> split_path(const std::string& path);

/// "/" where there is nothing else.
[[nodiscard]] std::string without_last_slashes(std::string path);

/// Throws the CheckpointError "cannot <action> '<shown>': <reason>", with the fix that belongs to
/// the reason; `free_bytes` is reported if the disk is full.
[[noreturn]] void throw_file_error(const std::string& action, const std::string& shown,
                                   int error_number,
                                   std::optional<std::uint64_t> free_bytes = std::nullopt);

namespace detail {

/// The signature of ::write.
using WriteCall = std::ptrdiff_t (*)(int fd, const void* bytes, std::size_t count);

/// Writes all of `bytes`, however few a call takes and however often a signal interrupts it.
/// Returns 0, or the errno of the call that failed.
[[nodiscard]] int write_fully(int fd, Span<const std::byte> bytes, WriteCall call);

}  // namespace detail
}  // namespace troupe
