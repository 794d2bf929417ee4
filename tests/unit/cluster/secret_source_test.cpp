// Which secret a process takes part with, from the real command line down to its bytes.
#include "troupe/cli/cluster/secret_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/cli/cluster/sealed_secret.h"
#include "troupe/cli/cluster/secret_file.h"
#include "troupe/cli/command_line.h"
#include "troupe/core/error.h"

namespace secret_source_test {

using troupe::Environment;
using troupe::SecretSource;
using troupe::testing::TempDir;
using Kind = troupe::SecretSource::Kind;
using Words = std::vector<std::string>;

namespace {

const Words kTwoHere = {"--rank", "1", "--world-size", "2", "--chief-address", "127.0.0.1:2222"};
const Words kTwoApart = {"--rank", "1", "--world-size", "2", "--chief-address", "10.0.0.1:2222"};

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

SecretSource source(const Words& arguments, const Environment& environment = {}) {
  return troupe::parse_command_line(arguments, environment).secret;
}

std::string printed(const Words& arguments, const Environment& environment = {}) {
  const std::string all =
      troupe::parse_command_line(arguments + Words{"--print-config"}, environment).text;
  const auto begin = all.find("\nsecret-file ") + 1;
  REQUIRE(begin != 0);
  return all.substr(begin, all.find('\n', begin) - begin);
}

bool has(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

std::string bytes_of(const troupe::Secret& secret) {
  const auto bytes = secret.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

troupe::Secret secret_of(char c) {
  return troupe::Secret(std::vector<std::byte>(40, static_cast<std::byte>(c)));
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }  // NOLINT: POSIX is variadic

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("secret source: flag, launcher, variable, and on loopback the user's key") {
    const Environment all = {
        {"TROUPE_SECRET_FD", "77"}, {"TROUPE_SECRET_FILE", "/v"}, {"HOME", "/h"}};
    SecretSource chosen = source(kTwoHere + Words{"--secret-file", "/f"}, all);
    CHECK(chosen.kind == Kind::file);
    CHECK(chosen.path == "/f");
    CHECK(chosen.origin == "--secret-file");
    CHECK(chosen.descriptor == 77);  // to be closed

    chosen = source(kTwoHere, all);
    CHECK(chosen.kind == Kind::descriptor);
    CHECK(chosen.descriptor == 77);

    chosen = source(kTwoHere, {{"TROUPE_SECRET_FILE", "/v"}, {"HOME", "/h"}});
    CHECK(chosen.kind == Kind::file);
    CHECK(chosen.path == "/v");
    CHECK(chosen.origin == "TROUPE_SECRET_FILE");

    chosen = source(kTwoHere, {{"HOME", "/h"}});
    CHECK(chosen.kind == Kind::user_key);
    CHECK(chosen.path == "/h/.config/troupe/key");
    CHECK(source(kTwoHere).kind == Kind::missing);  // without HOME
    CHECK_THROWS_WITH_AS((void)source(kTwoHere, {{"TROUPE_SECRET_FD", "x"}}),
                         doctest::Contains("TROUPE_SECRET_FD"), troupe::ConfigError);
  }

  TEST_CASE("secret source: beyond this machine the user's key is none") {
    const Environment home = {{"HOME", "/h"}};
    CHECK(source(kTwoApart, home).kind == Kind::missing);
    CHECK(source(kTwoApart + Words{"--insecure"}, home).kind == Kind::missing);
    CHECK(source({"--strategy", "parameter-server", "--task", "ps:0", "--world-size", "1",
                  "--servers", "10.0.0.1:2222"},
                 home)
              .kind == Kind::missing);
    CHECK(source(kTwoApart + Words{"--secret-file", "/f"}, home).kind == Kind::file);
    troupe::Outcome outcome = troupe::parse_command_line(kTwoApart, home);
    CHECK_THROWS_WITH_AS(
        (void)troupe::take_secret(outcome.secret, outcome.options->strategy.cluster),
        doctest::Contains("the cluster of --rank reaches beyond this machine, and no secret is "
                          "given. Fix: start the workers with `troupe run`, or make a secret with "
                          "`troupe secret FILE`, copy it to every machine, and pass --secret-file "
                          "FILE or set TROUPE_SECRET_FILE."),
        troupe::ConfigError);
  }

  TEST_CASE("secret source: who belongs to no group of several needs none and reads none") {
    const Environment given = {{"HOME", "/h"}, {"TROUPE_SECRET_FILE", "/v"}};
    CHECK(source({}, given).kind == Kind::none);
    CHECK(source({"--rank", "0", "--world-size", "1"}, given).kind == Kind::none);
    CHECK(
        source({"--task", "evaluator", "--mode", "train-and-evaluate", "--model-dir", "/m"}, given)
            .kind == Kind::none);
    CHECK(source(kTwoHere + Words{"--mode", "export", "--model-dir", "/m"}, given).kind ==
          Kind::none);
    // One worker and a server are two processes.
    CHECK(source({"--strategy", "parameter-server", "--rank", "0", "--world-size", "1", "--servers",
                  "127.0.0.1:2222"},
                 given)
              .kind == Kind::file);
    CHECK(troupe::take_secret(SecretSource{}, troupe::Cluster()) == nullptr);
  }

  TEST_CASE("secret source: --print-config shows where it comes from, and makes no key") {
    const TempDir home;
    const Environment variables = {{"HOME", home.path().string()}};
    const std::string key = home.path().string() + "/.config/troupe/key";
    CHECK(has(printed(kTwoHere, variables), key));
    CHECK(has(printed(kTwoHere, variables), "default"));
    CHECK_FALSE(std::filesystem::exists(home / ".config"));
    CHECK(has(printed(kTwoApart, variables), "missing"));
    CHECK(has(printed({}, variables), " - "));
    CHECK(has(printed(kTwoApart, {{"TROUPE_SECRET_FILE", "/v"}}), "/v"));
    CHECK(has(printed(kTwoApart, {{"TROUPE_SECRET_FILE", "/v"}}), "TROUPE_SECRET_FILE"));
    const troupe::UniqueFd sealed = troupe::seal(secret_of('q'));
    const Environment launched = {{"TROUPE_SECRET_FD", std::to_string(sealed.get())}};
    CHECK(has(printed(kTwoApart, launched), "handed down"));
    CHECK(has(printed(kTwoApart, launched), "troupe run"));
    CHECK_FALSE(has(printed(kTwoApart, launched), "qqqq"));
    CHECK(is_open(sealed.get()));
  }

  TEST_CASE("secret source: the launcher's is read once, closed, and its variable removed") {
    const std::string bytes(40, 's');
    for (const Kind kind : {Kind::descriptor, Kind::none}) {
      troupe::UniqueFd sealed = troupe::seal(secret_of('s'));
      const int number = sealed.release();
      setenv("TROUPE_SECRET_FD", "n", 1);
      SecretSource handed;
      handed.kind = kind;
      handed.descriptor = number;
      const auto secret = troupe::take_secret(handed, troupe::Cluster());
      CHECK((secret != nullptr) == (kind == Kind::descriptor));
      if (secret) CHECK(bytes_of(*secret) == bytes);
      CHECK_FALSE(is_open(number));
      CHECK(getenv("TROUPE_SECRET_FD") == nullptr);
    }
  }

  TEST_CASE("secret source: a number that is not a launcher's file is refused, and left open") {
    const TempDir dir;
    const std::string path = (dir / "file").string();
    REQUIRE(troupe::make_secret_file(path));
    const troupe::UniqueFd other(open(path.c_str(), O_RDWR | O_CLOEXEC));  // NOLINT
    SecretSource handed;
    handed.kind = Kind::descriptor;
    for (const int number : {other.get(), 999, 1}) {
      CAPTURE(number);
      handed.descriptor = number;
      CHECK_THROWS_WITH_AS((void)troupe::take_secret(handed, troupe::Cluster()),
                           doctest::Contains("a program in between closed it"),
                           troupe::ConfigError);
    }
    CHECK(is_open(other.get()));
    CHECK(is_open(1));
  }

  TEST_CASE("sealed secret: nobody changes it, all read all of it, and it closes in children") {
    const troupe::UniqueFd sealed = troupe::seal(secret_of('z'));
    CHECK(troupe::is_sealed_secret(sealed.get()));
    CHECK(write(sealed.get(), "x", 1) < 0);
    CHECK(ftruncate(sealed.get(), 1) < 0);
    CHECK(ftruncate(sealed.get(), 100) < 0);
    CHECK(fcntl(sealed.get(), F_ADD_SEALS, 0) < 0);           // NOLINT: POSIX is variadic
    CHECK((fcntl(sealed.get(), F_GETFD) & FD_CLOEXEC) != 0);  // NOLINT
    for (int reader = 0; reader < 2; ++reader)
      CHECK(bytes_of(*troupe::read_sealed(sealed.get())) == std::string(40, 'z'));
  }
}

}  // namespace secret_source_test
