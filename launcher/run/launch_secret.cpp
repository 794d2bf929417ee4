#include "troupe/launcher/run/launch_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "troupe/cli/cluster/sealed_secret.h"
#include "troupe/cli/cluster/secret_file.h"
#include "troupe/cli/cluster/secret_source.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// `troupe run` below `troupe run`: its processes belong to another job.
void keep_from_children(const Environment& own) {
  const auto outer = own.find(kSecretDescriptorVariable);
  if (outer == own.end()) return;
  const auto descriptor = parse_integer<std::int32_t>(outer->second);
  if (descriptor && is_sealed_secret(*descriptor))
    fcntl(*descriptor, F_SETFD, FD_CLOEXEC);  // NOLINT: POSIX is variadic
}

/// A shell's `> FILE` lets others read, as its umask says.
void close_to_others(int fd) {
  struct stat status {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & S_IRWXO) != 0)
    fchmod(fd, S_IRUSR | S_IWUSR);
}

}  // namespace

std::shared_ptr<const Secret> launch_secret(const std::string& file, const Environment& own) {
  keep_from_children(own);
  if (!file.empty()) return read_secret_file(file, "--secret-file");
  const auto named = own.find(kSecretFileVariable);
  if (named != own.end()) return read_secret_file(named->second, kSecretFileVariable);
  std::vector<std::byte> bytes(Secret::kMinBytes);
  fill_random(Span<std::byte>(bytes));
  return std::make_shared<const Secret>(std::move(bytes));
}

int make_secret(const std::vector<std::string>& arguments) {
  if (arguments.size() > 1 || (!arguments.empty() && arguments[0].rfind('-', 0) == 0))
    throw ConfigError("`troupe secret` takes one argument, the file to make, or none.",
                      "write `troupe secret FILE`.");
  if (!arguments.empty()) {
    if (make_secret_file(arguments[0])) return 0;
    throw ConfigError(text(arguments[0], " is there already."),
                      "name another file; or remove this one, if no job needs it.");
  }
  if (isatty(STDOUT_FILENO) == 1)
    throw ConfigError("a secret does not belong on a terminal, which keeps what it shows.",
                      "write `troupe secret FILE`, or pipe it to where it is needed.");
  close_to_others(STDOUT_FILENO);
  return detail::print_text(new_secret_text()) ? 0 : kExitFailed;
}

std::string secret_help() {
  return R"(Usage: troupe secret [FILE]

Makes the secret by which the processes of a job on several machines know each
other: one line of 64 hexadecimal digits, 256 random bits. FILE is made for you
alone (mode 0600) and must not exist; without it the line goes to stdout, which
must not be a terminal. Copy it to every machine and name it in --secret-file or
TROUPE_SECRET_FILE. `troupe run` on one machine needs none.

Examples:
  troupe secret job.key && scp -p job.key b:
  troupe secret | kubectl create secret generic troupe --from-file=key=/dev/stdin

docs/security.md has the rest.
)";
}

}  // namespace troupe
