#include "troupe/cli/cluster/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace troupe {
namespace {

constexpr const char* kMakeOne =
    "make one with `troupe secret FILE`, and give every process of the job a copy.";

/// "0640"
std::string mode_text(mode_t mode) {
  char digits[8];
  std::snprintf(digits, sizeof digits, "%04o", static_cast<unsigned>(mode & 07777));
  return digits;
}

bool is_own_group(gid_t group) {
  if (group == getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

/// Who else than this process may read or write the file. `name` is for the message.
void check_owner_and_mode(const struct stat& status, const std::string& path,
                          const std::string& name) {
  const std::string facts = text(name, " belongs to user ", status.st_uid, " and group ",
                                 status.st_gid, ", mode ", mode_text(status.st_mode));
  const bool ours = status.st_uid == geteuid();
  if (!ours && status.st_uid != 0) {
    throw ConfigError(
        text(facts, ": another user than you and root could change it."),
        text("copy it, `install -m 600 ", shell_word(path), " COPY`, and name the copy."));
  }
  // Root's own group are administrators. It is what systemd's credentials show, which an access
  // control list opens to the service.
  const bool trusted_group = is_own_group(status.st_gid) || (status.st_gid == 0 && !ours);
  const mode_t refused = S_IRWXO | S_IWGRP | (trusted_group ? 0 : S_IRGRP);
  if ((status.st_mode & refused) == 0) return;
  const std::string command =
      text("chmod ", trusted_group ? "g-w" : "g=", ",o= ", shell_word(path));
  throw ConfigError(text(facts, ": it is open to other users."),
                    ours ? text("run `", command, "`.")
                         : text("as root run `", command,
                                "`; a Kubernetes volume wants defaultMode: 0440 and the pod an "
                                "fsGroup."));
}

/// At most `most` bytes from the start. Sets errno and returns less than there is if it fails.
std::vector<std::byte> read_start(int fd, std::size_t most) {
  std::vector<std::byte> bytes(most);  // once: a buffer that grows leaves copies behind
  std::size_t done = 0;
  while (done < most) {
    const ssize_t count = pread(fd, bytes.data() + done, most - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

/// The newline at the end of text belongs to the file. Bytes that happen to end with its code are
/// not text.
void drop_final_newline(std::vector<std::byte>& bytes) {
  const auto is_text = [](std::byte byte) {
    return byte >= std::byte{0x20} && byte < std::byte{0x7f};
  };
  if (bytes.empty() || bytes.back() != std::byte{'\n'}) return;
  if (std::all_of(bytes.begin(), bytes.end() - 1, is_text)) bytes.pop_back();
}

[[noreturn]] void refuse_to_make(const std::string& path, int reason) {
  throw EnvironmentError(
      text("cannot make the secret ", path, ": ", std::strerror(reason), "."),
      "run `troupe secret FILE` with a FILE on a disk that you may write to, and pass "
      "--secret-file FILE; `troupe run` needs no file.");
}

/// The directory of `path` and those above it that are missing; they are the owner's alone.
void make_directories_of(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string directory = path.substr(0, slash);
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST &&
        access(directory.c_str(), X_OK) != 0)
      refuse_to_make(path, errno);
  }
}

}  // namespace

std::shared_ptr<const Secret> read_secret_file(const std::string& path,
                                               const std::string& named_by) {
  const std::string name = text(named_by, " ", path);
  // O_NONBLOCK: a pipe without a writer opens at once, and is then refused for what it is.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));  // NOLINT
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    const int reason = errno;
    throw ConfigError(text(name, " cannot be read: ", std::strerror(reason), "."),
                      reason == ENOENT ? kMakeOne : "name a file that this user may read.");
  }
  if (!S_ISREG(status.st_mode)) {
    throw ConfigError(text(name, " is not a regular file."),
                      "write the secret to a file, or make a new one with `troupe secret FILE`.");
  }
  check_owner_and_mode(status, path, name);
  constexpr std::size_t kMost = Secret::kMaxBytes + 1;  // with a newline
  std::vector<std::byte> bytes = read_start(file.get(), kMost + 1);
  drop_final_newline(bytes);
  if (bytes.size() < Secret::kMinBytes || bytes.size() > Secret::kMaxBytes) {
    const std::string size = bytes.size() > Secret::kMaxBytes
                                 ? text("more than ", Secret::kMaxBytes)
                                 : text(bytes.size());
    throw ConfigError(text(name, " holds ", size, " bytes; a secret has ", Secret::kMinBytes,
                           " to ", Secret::kMaxBytes, "."),
                      kMakeOne);
  }
  return std::make_shared<const Secret>(std::move(bytes));
}

std::string new_secret_text() {
  std::vector<std::byte> bytes(Secret::kMinBytes);
  fill_random(Span<std::byte>(bytes));
  return hex_of(Span<const std::byte>(bytes)) + "\n";
}

bool make_secret_file(const std::string& path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) return false;
  std::string temporary = path + ".XXXXXX";
  const UniqueFd file(mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (file.get() < 0) refuse_to_make(path, errno);
  const std::string content = new_secret_text();
  const auto size = static_cast<ssize_t>(content.size());
  // A link takes a name only if nobody has it. What is behind it is complete by then.
  const bool made = write(file.get(), content.data(), content.size()) == size &&
                    fsync(file.get()) == 0 && link(temporary.c_str(), path.c_str()) == 0;
  const int reason = errno;
  unlink(temporary.c_str());
  if (!made && reason != EEXIST) refuse_to_make(path, reason);
  return made;
}

std::string user_key_path(const Environment& environment) {
  // A relative one counts as unset: XDG Base Directory Specification 0.8.
  const std::string config = variable_in(environment, "XDG_CONFIG_HOME");
  if (!config.empty() && config[0] == '/') return config + "/troupe/key";
  const std::string home = variable_in(environment, "HOME");
  return home.empty() ? "" : home + "/.config/troupe/key";
}

std::shared_ptr<const Secret> read_user_key(const std::string& path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) {
    make_directories_of(path);
    if (make_secret_file(path))
      log_info(text("made ", path, ", by which this user's processes know each other"));
  }
  return read_secret_file(path, "this user's key");
}

}  // namespace troupe
