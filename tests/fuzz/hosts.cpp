// What users and schedulers write in files and variables of a line: lists of machines, addresses,
// and the secret.
#include <memory>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/machine_list.h"
#include "troupe/cli/cluster/secret_file.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::fuzz::hosts_target {
namespace {

enum Kind : unsigned char { machines, tasks, address, secret };
constexpr unsigned kKinds = secret + 1;

bool run_machines(const std::string& input) {
  std::vector<std::string> names;
  if (!accepts<ConfigError>([&] { names = expand_machine_list(input, "fuzz"); })) return false;
  FUZZ_REQUIRE(!names.empty() && names.size() <= kMaxMachines);
  for (const std::string& name : names) {
    FUZZ_REQUIRE(!name.empty() && name.find_first_of("[],") == std::string::npos);
  }
  FUZZ_REQUIRE(expand_machine_list(join(names, ","), "fuzz") == names);
  return true;
}

bool run_tasks(std::string_view input) {
  Values values(input);
  const auto machine = values.number<std::int64_t>();
  const std::string counts(values.rest());
  const auto count = tasks_on_machine(counts, machine);
  FUZZ_REQUIRE(!count || (*count >= 1 && machine >= 0));
  return count.has_value();
}

bool run_address(const std::string& input) {
  Endpoint endpoint;
  if (!accepts<ConfigError>([&] { endpoint = parse_address(input, "fuzz"); })) return false;
  FUZZ_REQUIRE(endpoint.port != 0 && !endpoint.host.empty());
  const Endpoint again = parse_address(address_text(endpoint), "fuzz");
  FUZZ_REQUIRE(again.host == endpoint.host && again.port == endpoint.port);
  return true;
}

/// All bytes of the file, but a newline at the end of text.
bool run_secret(std::string_view input) {
  const MemoryFile file(input);
  std::shared_ptr<const Secret> read;
  if (!accepts<ConfigError>([&] { read = read_secret_file(file.path(), "--secret-file"); })) {
    FUZZ_REQUIRE(input.size() <= Secret::kMinBytes || input.size() > Secret::kMaxBytes);
    return false;
  }
  const std::string bytes = text_of(read->bytes());
  FUZZ_REQUIRE(bytes.size() >= Secret::kMinBytes && bytes.size() <= Secret::kMaxBytes);
  FUZZ_REQUIRE(input == bytes || input == bytes + "\n");
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  return {seed(machines, "gnode[08-10,20],login"),
          seed(machines, "r[1-2]n[1-2]"),
          seed(tasks, std::string("\3\0\0\0\0\0\0\0", 8) + "2(x3),1"),
          seed(address, "worker-0.example:2222"),
          seed(address, "[fe80::1%eth0]:1"),
          seed(address, "localhost"),
          seed(secret, new_secret_text()),
          seed(secret, std::string(Secret::kMaxBytes, '\xff'))};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case machines:
      return run_machines(std::string(input));
    case tasks:
      return run_tasks(input);
    case address:
      return run_address(std::string(input));
    default:
      return run_secret(input);
  }
}

const Registration registered({"hosts", seeds, run});

}  // namespace troupe::fuzz::hosts_target
