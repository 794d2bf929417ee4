#include <cerrno>
#include <system_error>

#include "core/error.h"
#include "core/file_system.h"
#include "core/text.h"

namespace troupe {
namespace {

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

}  // namespace troupe
