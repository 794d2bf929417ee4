#include "troupe/core/file_system.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/failure.h"

namespace file_system_test {

namespace {

using troupe::CheckpointError;
using troupe::FileType;
using troupe::PosixFileSystem;
using troupe::testing::TempDir;

troupe::Span<const std::byte> bytes_of(const std::string& characters) {
  return troupe::as_bytes(troupe::Span<const char>(characters.data(), characters.size()));
}

void write(troupe::FileSystem& files, const std::string& path, const std::string& content) {
  const auto writer = files.create_file(path);
  writer->write(bytes_of(content));
  writer->sync();
  writer->close();
}

std::string read(troupe::FileSystem& files, const std::string& path) {
  const auto bytes = files.read_file(path, 1000);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat found = {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  return found.st_mode & 0777U;
}

// What the fake of ::write received, and how often it was called.
std::string taken;  // NOLINT: a plain function pointer has no other place
int calls = 0;      // NOLINT

std::ptrdiff_t slow_write(int, const void* bytes, std::size_t count) {
  if (calls++ % 3 == 1) {
    errno = EINTR;
    return -1;
  }
  const std::size_t some = std::min<std::size_t>(count, 3);
  taken.append(static_cast<const char*>(bytes), some);
  return static_cast<std::ptrdiff_t>(some);
}

std::ptrdiff_t full_disk(int, const void*, std::size_t) {
  errno = ENOSPC;
  return -1;
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("file_system: what is written is read, listed, renamed and removed") {
    const TempDir dir;
    PosixFileSystem files((dir / "a/b/root").string());
    CHECK_FALSE(files.status("").has_value());
    const mode_t umask_before = ::umask(0022);
    files.create_root();
    files.create_root();  // there already
    files.create_directory("sub");
    write(files, "sub/one", "first");
    ::umask(umask_before);
    files.sync_directory("sub");
    CHECK(read(files, "sub/one") == "first");
    CHECK(files.status("sub/one")->bytes == 5);
    CHECK(files.status("sub")->type == FileType::directory);
    CHECK(mode_of(dir / "a/b/root/sub") == 0755);
    CHECK(mode_of(dir / "a/b/root/sub/one") == 0644);
    ::umask(0002);  // of people who share a group's folder
    files.create_directory("shared");
    write(files, "shared/one", "first");
    ::umask(umask_before);
    CHECK(mode_of(dir / "a/b/root/shared") == 0775);
    CHECK(mode_of(dir / "a/b/root/shared/one") == 0664);
    files.remove_file("shared/one");
    files.remove_directory("shared");

    write(files, "sub/two", "second");
    files.rename("sub/two", "sub/one");
    CHECK(read(files, "sub/one") == "second");
    REQUIRE(files.list("sub").size() == 1);
    CHECK(files.list("sub")[0].name == "one");
    CHECK_THROWS_AS(files.remove_directory("sub"), CheckpointError);  // not empty
    files.remove_file("sub/one");
    files.remove_directory("sub");
    CHECK(files.list("").empty());
  }

  TEST_CASE("file_system: paths that lead out are refused") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    for (const char* const path : {"/etc/passwd", "../x", "a/../b", ".", "a//b", "a/", "./a"}) {
      CAPTURE(path);
      CHECK_THROWS_WITH_AS(files.create_file(path), doctest::Contains("leads out of"),
                           CheckpointError);
      CHECK_THROWS_AS(files.read_file(path, 10), CheckpointError);
      CHECK_THROWS_AS(files.list(path), CheckpointError);
    }
    CHECK_THROWS_AS(troupe::split_path(std::string("a\0b", 3)), CheckpointError);
  }

  TEST_CASE("file_system: links below the root are refused, the root may be one") {
    const TempDir dir;
    std::filesystem::create_directories(dir / "outside");
    std::ofstream(dir / "outside/secret") << "secret";
    std::filesystem::create_directories(dir / "real");
    std::filesystem::create_symlink(dir / "outside", dir / "real/link");
    std::filesystem::create_symlink(dir / "outside/secret", dir / "real/file");
    std::filesystem::create_symlink(dir / "real", dir / "root");
    PosixFileSystem files((dir / "root").string());
    files.create_root();

    CHECK(files.status("link")->type == FileType::symlink);
    CHECK_THROWS_WITH_AS(files.read_file("file", 10), doctest::Contains("symbolic link"),
                         CheckpointError);
    CHECK_THROWS_AS(files.read_file("link/secret", 10), CheckpointError);
    CHECK_THROWS_AS(files.create_file("link/new"), CheckpointError);
    CHECK_THROWS_AS(files.create_file("file"), CheckpointError);
    CHECK_THROWS_AS(files.list("link"), CheckpointError);
    CHECK_THROWS_AS(files.remove_file("link/secret"), CheckpointError);
    CHECK_THROWS_AS(files.try_lock("file"), CheckpointError);
    CHECK(std::filesystem::exists(dir / "outside/secret"));
  }

  TEST_CASE("file_system: nothing but a regular file within the limit is read") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    write(files, "big", std::string(1001, 'x'));
    CHECK_THROWS_WITH_AS(files.read_file("big", 1000),
                         doctest::Contains("1001 bytes, at most 1000"), CheckpointError);
    REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
    CHECK_THROWS_AS(files.read_file("pipe", 10), CheckpointError);  // and does not wait
    files.create_directory("directory");
    CHECK_THROWS_AS(files.read_file("directory", 10), CheckpointError);
  }

  TEST_CASE("file_system: the start of a file is read, and all of a shorter one") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    write(files, "file", "abcdef");
    CHECK(files.read_start("file", 4).size() == 4);
    CHECK(files.read_start("file", 4).back() == std::byte{'d'});
    CHECK(files.read_start("file", 100).size() == 6);
    REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
    CHECK_THROWS_AS(files.read_start("pipe", 10), CheckpointError);
  }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process instead
  TEST_CASE("file_system: a file larger than memory is refused by name") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    write(files, "sparse", "");
    for (const std::uintmax_t tebibytes : {3, 4'000'000}) {
      std::error_code too_large_for_this_disk;
      std::filesystem::resize_file(dir / "sparse", tebibytes << 40, too_large_for_this_disk);
      if (too_large_for_this_disk) continue;
      rlimit before = {};
      REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
      const rlimit small = {rlim_t{4} << 30,
                            before.rlim_max};  // also where memory is overcommitted
      REQUIRE(setrlimit(RLIMIT_AS, &small) == 0);
      CHECK_THROWS_WITH_AS(files.read_file("sparse", UINT64_MAX), doctest::Contains("sparse' has "),
                           CheckpointError);
      REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
      CHECK(files.read_start("sparse", 8).size() == 8);
    }
  }
#endif

  TEST_CASE("file_system: what is there is not replaced by accident") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    write(files, "file", "x");
    CHECK_THROWS_WITH_AS(files.create_file("file"), doctest::Contains("File exists"),
                         CheckpointError);
    CHECK_THROWS_AS(files.create_directory("file"), CheckpointError);
    files.create_directory("full");
    files.create_directory("other");
    write(files, "full/x", "x");
    CHECK_THROWS_AS(files.rename("other", "full"), CheckpointError);
  }

  TEST_CASE("file_system: a message has the path, the reason and what is free on a full disk") {
    const auto fail = [] { troupe::throw_file_error("write", "/m/x", ENOSPC, 4096); };
    CHECK_THROWS_WITH_AS(
        fail(),
        doctest::Contains("cannot write '/m/x': No space left on device (4096 bytes free)."),
        CheckpointError);
    CHECK(CheckpointError("", "").exit_code() == 1);
    CHECK(std::string(CheckpointError("", "").kind()) == "checkpoint");
    PosixFileSystem files("/nonexistent/troupe");
    CHECK_THROWS_WITH_AS(files.create_file("x"),
                         doctest::Contains("cannot create '/nonexistent/troupe/x': No such file"),
                         CheckpointError);
  }

  TEST_CASE("file_system: short and interrupted writes go on, a full disk ends them") {
    taken.clear();
    calls = 0;
    CHECK(troupe::detail::write_fully(-1, bytes_of("0123456789"), slow_write) == 0);
    CHECK(taken == "0123456789");
    CHECK(calls > 4);
    CHECK(troupe::detail::write_fully(-1, bytes_of("x"), full_disk) == ENOSPC);
  }

  TEST_CASE("file_system: a lock has one holder and keeps its record") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    auto lock = files.try_lock("lock");
    REQUIRE(lock);
    CHECK(lock->read().empty());
    lock->write("a long record");
    lock->write("short");
    CHECK(lock->read() == "short");
    CHECK(files.try_lock("lock") == nullptr);
    lock.reset();
    lock = files.try_lock("lock");
    REQUIRE(lock);
    CHECK(lock->read() == "short");
  }

  TEST_CASE("file_system: a lock's record is there while it is replaced") {
    const TempDir dir;
    PosixFileSystem files(dir.path().string());
    const auto lock = files.try_lock("lock");
    REQUIRE(lock);
    lock->write(std::string(512, 'a'));
    std::atomic<bool> over{false};
    std::thread writer([&] {
      for (int i = 0; i < 20'000; ++i) lock->write(std::string(512, i % 2 == 0 ? 'b' : 'a'));
      over = true;
    });
    int shorter = 0;
    while (!over) shorter += files.read_file("lock", 4096).size() != 512 ? 1 : 0;
    writer.join();
    CHECK(shorter == 0);
  }
}

}  // namespace file_system_test
