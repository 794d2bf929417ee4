// Which files a secret is read from, and how they are made.
#include "troupe/cli/cluster/secret_file.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/core/sha256.h"

namespace secret_file_test {

using troupe::testing::TempDir;

namespace {

constexpr uid_t kStranger = 65534;

std::string file_of(const TempDir& dir, const std::string& bytes, mode_t mode = 0600) {
  const std::string path = (dir / "secret").string();
  std::ofstream(path, std::ios::binary) << bytes;
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

std::string bytes_of(const troupe::Secret& secret) {
  const auto bytes = secret.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string read(const std::string& path) {
  return bytes_of(*troupe::read_secret_file(path, "--secret-file"));
}

std::string refusal(const std::string& path) {
  try {
    (void)read(path);
  } catch (const troupe::ConfigError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_SUITE("cluster") {
  TEST_CASE("secret file: its bytes are the secret, but the newline at the end of a line of text") {
    const TempDir dir;
    const std::string text(40, 'k');
    CHECK(read(file_of(dir, text)) == text);
    CHECK(read(file_of(dir, text + "\n")) == text);
    CHECK(read(file_of(dir, text + "\n\n")) == text + "\n\n");  // that is no line
    // Random bytes that end with a newline's code, or hold a zero, are taken as they are.
    const std::string raw = std::string(31, '\xfe') + "\n";
    CHECK(read(file_of(dir, raw)) == raw);
    const std::string zeros(32, '\0');
    CHECK(read(file_of(dir, zeros)) == zeros);
  }

  TEST_CASE("secret file: 32 to 4096 bytes") {
    const TempDir dir;
    CHECK(read(file_of(dir, std::string(32, 'x'))).size() == 32);
    CHECK(read(file_of(dir, std::string(4096, 'x') + "\n")).size() == 4096);
    CHECK(has(refusal(file_of(dir, std::string(31, 'x') + "\n")), "holds 31 bytes"));
    CHECK(has(refusal(file_of(dir, "")), "holds 0 bytes"));
    CHECK(has(refusal(file_of(dir, std::string(4097, 'x'))), "holds more than 4096 bytes"));
    CHECK(has(refusal(file_of(dir, std::string(1 << 20, 'x'))), "holds more than 4096 bytes"));
    CHECK(has(refusal(file_of(dir, "")), "`troupe secret FILE`"));
  }

  TEST_CASE(
      "secret file: what others may read, or a group may write, is refused with the command") {
    const TempDir dir;
    const std::string bytes(32, 'x');
    for (const mode_t mode : {0600, 0400, 0640, 0440, 0700}) {
      CAPTURE(mode);
      CHECK(read(file_of(dir, bytes, mode)) == bytes);  // the group is our own
    }
    for (const mode_t mode : {0644, 0604, 0602, 0601, 0660, 0620, 0666}) {
      CAPTURE(mode);
      const std::string path = file_of(dir, bytes, mode);
      const std::string message = refusal(path);
      CHECK(has(message, "--secret-file " + path + " belongs to user "));
      CHECK(has(message, "Fix: run `chmod g-w,o= " + path + "`."));
      REQUIRE(std::system(("chmod g-w,o= " + path).c_str()) == 0);
      CHECK(read(path) == bytes);
    }
    CHECK(has(refusal(file_of(dir, bytes, 0644)), "mode 0644"));
  }

  TEST_CASE("secret file: a group that is not ours may not read it, nor another user own it") {
    if (geteuid() != 0) {
      MESSAGE("skipped: only root may give files away");
      return;
    }
    const TempDir dir;
    const std::string bytes(32, 'x');
    std::string path = file_of(dir, bytes, 0640);
    REQUIRE(chown(path.c_str(), 0, 54321) == 0);
    CHECK(has(refusal(path), "group 54321, mode 0640"));
    CHECK(has(refusal(path), "`chmod g=,o= " + path + "`"));
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    CHECK(read(path) == bytes);
    REQUIRE(chown(path.c_str(), kStranger, 0) == 0);
    CHECK(has(refusal(path), "belongs to user 65534"));
    CHECK(has(refusal(path), "`install -m 600 " + path + " COPY`"));
  }

  TEST_CASE("secret file: root's is taken by the user whose group may read it") {
    if (geteuid() != 0) {
      MESSAGE("skipped: only root may become another user");
      return;
    }
    const TempDir dir;
    REQUIRE(chmod(dir.path().c_str(), 0755) == 0);
    const std::string bytes(32, 'x');
    const std::string path = file_of(dir, bytes, 0440);
    REQUIRE(chown(path.c_str(), 0, 2000) == 0);  // a Kubernetes Secret with fsGroup 2000
    const gid_t groups[] = {1000, 2000};
    REQUIRE(setgroups(2, groups) == 0);
    REQUIRE(seteuid(1000) == 0);
    CHECK(refusal(path).empty());
    REQUIRE(seteuid(0) == 0);
    REQUIRE(chmod(path.c_str(), 0444) == 0);
    REQUIRE(seteuid(1000) == 0);
    CHECK(has(refusal(path), "as root run `chmod g-w,o="));
    CHECK(has(refusal(path), "defaultMode: 0440"));
    REQUIRE(seteuid(0) == 0);
    REQUIRE(setgroups(0, nullptr) == 0);
  }

  TEST_CASE("secret file: links are followed, and what is no file is refused at once") {
    const TempDir dir;
    const std::string bytes(32, 'x');
    const std::string path = file_of(dir, bytes);
    std::filesystem::create_symlink("secret", dir / "second");
    std::filesystem::create_symlink("second", dir / "first");
    CHECK(read((dir / "first").string()) == bytes);
    const std::string pipe = (dir / "pipe").string();
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(has(refusal(pipe), pipe + " is not a regular file"));  // nobody writes: no wait
    CHECK(has(refusal(dir.path().string()), "is not a regular file"));
    CHECK(has(refusal("/dev/zero"), "is not a regular file"));
    CHECK(has(refusal((dir / "none").string()), "cannot be read: No such file"));
  }

  TEST_CASE(
      "secret file: one that is made is its owner's alone, whole, and never replaces another") {
    const TempDir dir;
    const std::string path = (dir / "new one").string();
    CHECK(troupe::make_secret_file(path));
    CHECK(mode_of(path) == 0600);
    const std::string bytes = read(path);
    CHECK(bytes.size() == 64);
    CHECK(bytes.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK_FALSE(troupe::make_secret_file(path));
    CHECK(read(path) == bytes);
    std::filesystem::create_symlink("nowhere", dir / "dangling");
    CHECK_FALSE(troupe::make_secret_file((dir / "dangling").string()));
    const auto entries = std::distance(std::filesystem::directory_iterator(dir.path()), {});
    CHECK(entries == 2);  // nothing temporary
    CHECK_THROWS_AS((void)troupe::make_secret_file((dir / "no/such/place").string()),
                    troupe::EnvironmentError);
    CHECK(troupe::new_secret_text() != troupe::new_secret_text());
  }

  TEST_CASE("user key: made at first use, with its directories, and then kept") {
    const TempDir dir;
    const std::string home = dir.path().string();
    CHECK(troupe::user_key_path({{"HOME", home}}) == home + "/.config/troupe/key");
    CHECK(troupe::user_key_path({{"HOME", home}, {"XDG_CONFIG_HOME", "/x"}}) == "/x/troupe/key");
    CHECK(troupe::user_key_path({{"HOME", home}, {"XDG_CONFIG_HOME", "relative"}}) ==
          home + "/.config/troupe/key");
    CHECK(troupe::user_key_path({}).empty());
    const std::string path = troupe::user_key_path({{"HOME", home}});
    const std::string bytes = bytes_of(*troupe::read_user_key(path));
    CHECK(bytes_of(*troupe::read_user_key(path)) == bytes);
    CHECK(mode_of(path) == 0600);
    CHECK(mode_of(home + "/.config/troupe") == 0700);
    REQUIRE(chmod(path.c_str(), 0644) == 0);
    CHECK_THROWS_WITH_AS((void)troupe::read_user_key(path), doctest::Contains("this user's key"),
                         troupe::ConfigError);
  }

  TEST_CASE("user key: processes that start together agree on one") {
    for (int round = 0; round < 20; ++round) {
      const TempDir dir;
      const std::string path = (dir / "troupe/key").string();
      std::vector<std::string> seen(8);
      std::vector<std::thread> threads;
      for (std::string& bytes : seen)
        threads.emplace_back([&bytes, &path] {
          try {
            bytes = bytes_of(*troupe::read_user_key(path));
          } catch (const std::exception& error) {
            bytes = error.what();
          }
        });
      for (std::thread& thread : threads) thread.join();
      CHECK(seen[0].size() == 64);
      CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 1);
    }
  }
}

}  // namespace secret_file_test
