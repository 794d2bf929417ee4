#include "troupe/core/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace troupe {
namespace {

constexpr std::size_t kMaxLockRecord = 4096;  // bytes
constexpr mode_t kFileMode = 0666;            // less what the umask takes away
constexpr mode_t kDirectoryMode = 0777;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// Calls `call` again while a signal interrupts it.
template <class Call>
auto retry(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] void fail(const std::string& action, const std::string& shown, int error, int fd) {
  std::optional<std::uint64_t> free_bytes;
  struct statvfs space = {};
  if ((error == ENOSPC || error == EDQUOT) && fd >= 0 && ::fstatvfs(fd, &space) == 0) {
    free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  }
  throw_file_error(action, shown, error, free_bytes);
}

/// The last component of a path and the open directory that it is in.
struct Place {
  UniqueFd parent;
  std::string name;
};

/// Opens directory by directory, following no link below the root. -1 and errno where it fails.
UniqueFd open_below(const std::string& root, const std::vector<std::string>& components,
                    std::size_t count) {
  UniqueFd at(retry([&] { return ::open(root.c_str(), kDirectoryFlags); }));
  for (std::size_t i = 0; i < count && at.get() >= 0; ++i) {
    at = UniqueFd(retry(
        [&] { return ::openat(at.get(), components[i].c_str(), kDirectoryFlags | O_NOFOLLOW); }));
  }
  return at;
}

Place find_place(const std::string& root, const std::string& path, const std::string& action,
                 const std::string& shown) {
  const std::vector<std::string> components = split_path(path);
  if (components.empty()) throw_file_error(action, shown, EINVAL);
  Place place{open_below(root, components, components.size() - 1), components.back()};
  if (place.parent.get() < 0) throw_file_error(action, shown, errno);
  return place;
}

void unlink_at(const Place& place, int flags, const std::string& shown) {
  const auto remove = [&] { return ::unlinkat(place.parent.get(), place.name.c_str(), flags); };
  if (retry(remove) != 0) throw_file_error("remove", shown, errno);
}

FileType type_of(mode_t mode) {
  if (S_ISREG(mode)) return FileType::file;
  if (S_ISDIR(mode)) return FileType::directory;
  return S_ISLNK(mode) ? FileType::symlink : FileType::other;
}

/// A regular file, open to be read.
struct OpenFile {
  UniqueFd fd;
  std::uint64_t bytes = 0;
};

OpenFile open_regular(const Place& place, const std::string& shown) {
  // Non-blocking: opening a pipe would otherwise wait for a writer.
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  UniqueFd fd(retry([&] { return ::openat(place.parent.get(), place.name.c_str(), kFlags); }));
  struct stat found = {};
  if (fd.get() < 0 || ::fstat(fd.get(), &found) != 0) throw_file_error("read", shown, errno);
  if (!S_ISREG(found.st_mode)) {
    throw_file_error("read", shown, S_ISDIR(found.st_mode) ? EISDIR : EINVAL);
  }
  return {std::move(fd), static_cast<std::uint64_t>(found.st_size)};
}

/// Room for a file's content. A sparse file can have any size.
std::vector<std::byte> allocate(std::uint64_t count, const std::string& shown) {
  try {
    return std::vector<std::byte>(static_cast<std::size_t>(count));
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw CheckpointError(
        text("'", shown, "' has ", count, " bytes, more than this process can allocate."),
        "free memory or raise the process's limit; if the file should be smaller, it is damaged: "
        "use another checkpoint.");
  }
}

std::vector<std::byte> read_bytes(const OpenFile& file, std::uint64_t count,
                                  const std::string& shown) {
  std::vector<std::byte> bytes = allocate(count, shown);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got =
        retry([&] { return ::read(file.fd.get(), bytes.data() + done, bytes.size() - done); });
    if (got < 0) throw_file_error("read", shown, errno);
    if (got == 0) break;  // shorter than a moment ago
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

class PosixFileWriter final : public FileWriter {
 public:
  PosixFileWriter(UniqueFd fd, std::string shown) : fd_(std::move(fd)), shown_(std::move(shown)) {}

  void write(Span<const std::byte> bytes) override {
    if (const int error = detail::write_fully(fd_.get(), bytes, ::write)) {
      fail("write", shown_, error, fd_.get());
    }
  }
  void sync() override {
    if (retry([&] { return ::fsync(fd_.get()); }) != 0) fail("sync", shown_, errno, fd_.get());
  }
  void close() override {
    // Never repeated: Linux has given the number back also where it reports an interruption.
    if (::close(fd_.release()) != 0 && errno != EINTR) fail("close", shown_, errno, -1);
  }

 private:
  UniqueFd fd_;
  std::string shown_;
};

/// The calls that some file systems do not have, network ones above all: training does without.
bool is_unsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ENOTSUP ||
         error == ENOLCK || error == EPERM;
}

void warn_once(std::atomic<bool>& warned, const std::string& warning) {
  if (!warned.exchange(true)) log_warning(warning);
}

/// Returns 0 also where the file system cannot.
int sync_directory_at(int fd, const std::string& shown) {
  if (retry([&] { return ::fsync(fd); }) == 0) return 0;
  const int error = errno;
  if (!is_unsupported(error)) return error;
  static std::atomic<bool> warned{false};
  warn_once(warned, text("the file system of '", shown, "' cannot make a directory durable (",
                         std::strerror(error),
                         "): after a loss of power the newest checkpoints may be missing"));
  return 0;
}

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(UniqueFd fd, std::string shown, bool is_enforced)
      : fd_(std::move(fd)), shown_(std::move(shown)), is_enforced_(is_enforced) {}

  [[nodiscard]] bool is_enforced() const override { return is_enforced_; }

  [[nodiscard]] std::string read() const override {
    std::string record(kMaxLockRecord, '\0');
    const auto got = retry([&] { return ::pread(fd_.get(), record.data(), record.size(), 0); });
    if (got < 0) fail("read", shown_, errno, -1);
    record.resize(static_cast<std::size_t>(got));
    return record;
  }
  void write(const std::string& record) override {
    const Span<const char> characters(record.data(), record.size());
    if (::lseek(fd_.get(), 0, SEEK_SET) != 0) fail("write", shown_, errno, fd_.get());
    if (const int error = detail::write_fully(fd_.get(), as_bytes(characters), ::write)) {
      fail("write", shown_, error, fd_.get());
    }
    const auto size = static_cast<off_t>(record.size());
    if (retry([&] { return ::ftruncate(fd_.get(), size); }) != 0)
      fail("write", shown_, errno, fd_.get());
  }

 private:
  UniqueFd fd_;  // closing it gives the lock back
  std::string shown_;
  bool is_enforced_;
};

/// Whether the open file is still the one at its name.
bool same_file(int fd, const Place& place) {
  struct stat opened = {};
  struct stat named = {};
  return ::fstat(fd, &opened) == 0 &&
         ::fstatat(place.parent.get(), place.name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::string reason_of(int error_number) {
  // What these mean here, where links are never followed.
  if (error_number == ELOOP) return "it is a symbolic link, and those are not followed";
  if (error_number == ENOTDIR) return "it is not a directory, or one above it is not";
  return std::generic_category().message(error_number);
}

const char* fix_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free space on that file system, keep fewer checkpoints or name another directory.";
    case EROFS:
    case EACCES:
    case EPERM:
      return "make the directory writable for this user, or name another one.";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n).";
    case EIO:
      return "check the disk and the system's log.";
    case ELOOP:
      return "put the real file or directory in its place.";
    default:
      return "check the path and the file system.";
  }
}

}  // namespace

void throw_file_error(const std::string& action, const std::string& shown, int error_number,
                      std::optional<std::uint64_t> free_bytes) {
  std::string cause = text("cannot ", action, " '", shown, "': ", reason_of(error_number));
  if (free_bytes) cause += text(" (", *free_bytes, " bytes free)");
  throw CheckpointError(cause + ".", fix_of(error_number));
}

std::string without_last_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::vector<std::string> split_path(const std::string& path) {
  if (path.empty()) return {};
  std::vector<std::string> components = split(path, '/');
  for (const std::string& component : components) {
    if (component.empty() || component == "." || component == ".." ||
        component.find('\0') != std::string::npos) {
      throw CheckpointError(text("the path '", path, "' leads out of its directory."),
                            "use a relative path of plain names.");
    }
  }
  return components;
}

int detail::write_fully(int fd, Span<const std::byte> bytes, WriteCall call) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::ptrdiff_t count = call(fd, bytes.data() + done, bytes.size() - done);
    if (count == 0) return EIO;  // no progress and no reason
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return 0;
}

void replace_file(FileSystem& files, const std::string& name, const std::string& temporary,
                  const std::string& content) {
  if (files.status(temporary)) files.remove_file(temporary);
  const auto writer = files.create_file(temporary);
  writer->write(as_bytes(Span<const char>(content.data(), content.size())));
  writer->sync();
  writer->close();
  files.rename(temporary, name);
  files.sync_directory("");
}

PosixFileSystem::PosixFileSystem(std::string root) : root_(std::move(root)) {}

std::string PosixFileSystem::shown(const std::string& path) const {
  return path.empty() ? root_ : root_ + "/" + path;
}

void PosixFileSystem::create_root() {
  std::string above = root_.rfind('/', 0) == 0 ? "/" : ".";
  for (std::size_t begin = 0; begin < root_.size();) {
    const std::size_t end = std::min(root_.find('/', begin), root_.size());
    const std::string path = root_.substr(0, end);
    begin = end + 1;
    if (path.empty()) continue;  // before the first '/'
    if (::mkdir(path.c_str(), kDirectoryMode) == 0) {
      const UniqueFd fd(retry([&] { return ::open(above.c_str(), kDirectoryFlags); }));
      const int failed = fd.get() < 0 ? errno : sync_directory_at(fd.get(), above);
      if (failed != 0) throw_file_error("sync", above, failed);
    } else if (const int error = errno; error != EEXIST && error != EISDIR) {
      struct stat there = {};  // an existing directory may answer EROFS or EACCES instead
      if (::stat(path.c_str(), &there) != 0) throw_file_error("create", path, error);
    }
    above = path;
  }
  const UniqueFd fd = open_below(root_, {}, 0);
  if (fd.get() < 0) throw_file_error("open", root_, errno);
}

void PosixFileSystem::create_directory(const std::string& path) {
  const Place place = find_place(root_, path, "create", shown(path));
  const auto make = [&] {
    return ::mkdirat(place.parent.get(), place.name.c_str(), kDirectoryMode);
  };
  if (retry(make) != 0) fail("create", shown(path), errno, place.parent.get());
}

std::unique_ptr<FileWriter> PosixFileSystem::create_file(const std::string& path) {
  const Place place = find_place(root_, path, "create", shown(path));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(
      retry([&] { return ::openat(place.parent.get(), place.name.c_str(), kFlags, kFileMode); }));
  if (fd.get() < 0) fail("create", shown(path), errno, place.parent.get());
  return std::make_unique<PosixFileWriter>(std::move(fd), shown(path));
}

void PosixFileSystem::rename(const std::string& from, const std::string& to) {
  const Place source = find_place(root_, from, "rename", shown(from));
  const Place target = find_place(root_, to, "rename", shown(to));
  const auto move = [&] {
    return ::renameat(source.parent.get(), source.name.c_str(), target.parent.get(),
                      target.name.c_str());
  };
  if (retry(move) != 0) {
    fail(text("rename '", shown(from), "' to"), shown(to), errno, target.parent.get());
  }
}

void PosixFileSystem::sync_directory(const std::string& path) {
  const std::vector<std::string> components = split_path(path);
  const UniqueFd fd = open_below(root_, components, components.size());
  const int failed = fd.get() < 0 ? errno : sync_directory_at(fd.get(), shown(path));
  if (failed != 0) fail("sync", shown(path), failed, fd.get());
}

void PosixFileSystem::sync_file(const std::string& path) {
  const OpenFile file = open_regular(find_place(root_, path, "sync", shown(path)), shown(path));
  if (retry([&] { return ::fsync(file.fd.get()); }) != 0) {
    throw_file_error("sync", shown(path), errno);
  }
}

void PosixFileSystem::remove_file(const std::string& path) {
  unlink_at(find_place(root_, path, "remove", shown(path)), 0, shown(path));
}

void PosixFileSystem::remove_directory(const std::string& path) {
  unlink_at(find_place(root_, path, "remove", shown(path)), AT_REMOVEDIR, shown(path));
}

std::vector<DirectoryEntry> PosixFileSystem::list(const std::string& path) {
  const std::vector<std::string> components = split_path(path);
  UniqueFd fd = open_below(root_, components, components.size());
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(
      fd.get() < 0 ? nullptr : ::fdopendir(fd.get()), ::closedir);
  if (!directory) throw_file_error("list", shown(path), errno);
  static_cast<void>(fd.release());  // the DIR closes it
  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat found = {};
    const int at = ::dirfd(directory.get());
    if (::fstatat(at, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
      entries.push_back({name, type_of(found.st_mode)});
    } else if (errno != ENOENT) {  // gone meanwhile: another process's right
      throw_file_error("list", shown(path), errno);
    }
  }
  if (errno != 0) throw_file_error("list", shown(path), errno);
  return entries;
}

std::optional<FileStatus> PosixFileSystem::status(const std::string& path) {
  const std::vector<std::string> components = split_path(path);
  struct stat found = {};
  int failed = 0;
  if (components.empty()) {
    failed = ::stat(root_.c_str(), &found);
  } else {
    const UniqueFd parent = open_below(root_, components, components.size() - 1);
    failed = parent.get() < 0
                 ? -1
                 : ::fstatat(parent.get(), components.back().c_str(), &found, AT_SYMLINK_NOFOLLOW);
  }
  if (failed != 0 && errno == ENOENT) return std::nullopt;
  if (failed != 0) throw_file_error("look at", shown(path), errno);
  return FileStatus{type_of(found.st_mode), static_cast<std::uint64_t>(found.st_size)};
}

std::vector<std::byte> PosixFileSystem::read_file(const std::string& path,
                                                  std::uint64_t max_bytes) {
  const OpenFile file = open_regular(find_place(root_, path, "read", shown(path)), shown(path));
  if (file.bytes > max_bytes) {
    throw CheckpointError(
        text("'", shown(path), "' has ", file.bytes, " bytes, at most ", max_bytes,
             " were expected."),
        "the file is damaged or not Troupe's; remove it or use another checkpoint.");
  }
  return read_bytes(file, file.bytes, shown(path));
}

std::vector<std::byte> PosixFileSystem::read_start(const std::string& path, std::uint64_t count) {
  const OpenFile file = open_regular(find_place(root_, path, "read", shown(path)), shown(path));
  return read_bytes(file, std::min(count, file.bytes), shown(path));
}

std::unique_ptr<FileLock> PosixFileSystem::try_lock(const std::string& path) {
  const Place place = find_place(root_, path, "lock", shown(path));
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  constexpr int kAttempts = 16;  // the file may be replaced between opening and locking it
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    UniqueFd fd(
        retry([&] { return ::openat(place.parent.get(), place.name.c_str(), kFlags, kFileMode); }));
    if (fd.get() < 0) fail("lock", shown(path), errno, place.parent.get());
    const bool locked = retry([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) == 0;
    if (!locked) {
      if (errno == EWOULDBLOCK) return nullptr;
      if (!is_unsupported(errno)) throw_file_error("lock", shown(path), errno);
      static std::atomic<bool> warned{false};
      warn_once(warned, text("the file system of '", shown(path), "' has no locks (",
                             std::strerror(errno), "): who writes there is known by its record"));
    }
    if (same_file(fd.get(), place)) {
      return std::make_unique<PosixFileLock>(std::move(fd), shown(path), locked);
    }
  }
  throw_file_error("lock", shown(path), EBUSY);
}

}  // namespace troupe
