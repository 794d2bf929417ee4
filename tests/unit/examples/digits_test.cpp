#include "examples/digits/digits.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "examples/digits/digit_drawing.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/core/sha256.h"
#include "troupe/data/formats/idx.h"

namespace {

namespace fs = std::filesystem;
using troupe::Digits;
using troupe::DigitsSplit;

const std::vector<std::string> kNames = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

std::string file_digest(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return troupe::sha256_hex(std::string(std::istreambuf_iterator<char>(in), {}));
}

std::size_t entries_in(const fs::path& dir) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir), {}));
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("digits: the files are the same to the last bit on every machine") {
    troupe::testing::TempDir dir;
    troupe::write_digits(dir / "small", 250, 30, 7);
    CHECK(file_digest(dir / "small" / kNames[0]) ==
          "de7e68b5a433c23faf97cdc60339da1c7e36aa2c3906e89caa7f19e5064978cb");
    CHECK(file_digest(dir / "small" / kNames[1]) ==
          "d1c3be14e5f5fa9d85a706468895d680ee86e1aad9f15b62772fefae941f4bc1");
    CHECK(file_digest(dir / "small" / kNames[2]) ==
          "f9a7569945eb2fb96a93fefb917886f6c1d82102dc5fb319238c51205216a3c6");
    CHECK(file_digest(dir / "small" / kNames[3]) ==
          "4a4515af1d446e8ba32fbef0c580c0e55f7a58a08708a0e93e9e14bd1c8bf9a9");
  }

  TEST_CASE("digits: the default data set is the same to the last bit on every machine") {
    troupe::testing::TempDir dir;
    troupe::write_digits(dir / "default",
                         troupe::kDefaultTrainDigits + troupe::kDefaultValidationDigits,
                         troupe::kDefaultTestDigits, troupe::kDefaultDigitsSeed);
    CHECK(file_digest(dir / "default" / kNames[0]) ==
          "2cab7702cade99bdcee6ee481e224989dff8732ff61ec4ca1fc6f33b03fbf2a4");
    CHECK(file_digest(dir / "default" / kNames[1]) ==
          "3928c0ca2991042f0ada679886ccd9c0a77ad8302ba1ad23dbea28f9efb4a99b");
    CHECK(file_digest(dir / "default" / kNames[2]) ==
          "d57c5f4380b26b808b07173e48f4ff780a6a2ff081fbd2be401364d54443f3e1");
    CHECK(file_digest(dir / "default" / kNames[3]) ==
          "a693eb82d12232744acce96a7586a5364ae1b4ff6f9a46a0a48c966f87695be3");
  }

  TEST_CASE("digits: an image depends on its number, split and seed alone") {
    const Digits some = troupe::generate_digits(DigitsSplit::train, 150, 1);
    const Digits more = troupe::generate_digits(DigitsSplit::train, 250, 1);
    CHECK(std::equal(some.images.begin(), some.images.end(), more.images.begin()));
    CHECK(std::equal(some.labels.begin(), some.labels.end(), more.labels.begin()));
    CHECK(troupe::generate_digits(DigitsSplit::test, 150, 1).images != some.images);
    CHECK(troupe::generate_digits(DigitsSplit::train, 150, 2).images != some.images);
    CHECK(troupe::generate_digits(DigitsSplit::train, 0, 1).labels.empty());
  }

  TEST_CASE("digits: framed as MNIST, every digit about equally often") {
    const Digits digits = troupe::generate_digits(DigitsSplit::train, 2000, 1);
    CHECK(digits.images.size() == 2000 * static_cast<std::size_t>(troupe::kDigitPixels));
    std::vector<int> count(10);
    double sum = 0;
    for (std::size_t i = 0; i < digits.labels.size(); ++i) {
      REQUIRE(digits.labels[i] <= 9);
      ++count[digits.labels[i]];
      double mass = 0;
      double moment_x = 0;
      double moment_y = 0;
      for (std::size_t p = 0; p < 784; ++p) {
        const double ink = digits.images[i * 784 + p];
        mass += ink;
        moment_x += ink * static_cast<double>(p % 28);
        moment_y += ink * static_cast<double>(p / 28);
      }
      sum += mass;
      REQUIRE(mass > 10 * 255);  // there is a stroke
      // Centre of mass in the middle, to the half pixel of a whole shift; noise and bytes add a
      // little.
      CHECK(std::abs(moment_x / mass - 13.5) < 0.75);
      CHECK(std::abs(moment_y / mass - 13.5) < 0.75);
    }
    for (const int c : count) CHECK(std::abs(c - 200) < 60);
    const double mean = sum / 255 / static_cast<double>(digits.images.size());
    CHECK(mean == doctest::Approx(0.1307).epsilon(0.15));  // MNIST's mean
  }

  TEST_CASE("digits: images of one writer are closer in pen width than images of two") {
    // Ink per writer varies more than chance allows if writers were all alike.
    const Digits digits = troupe::generate_digits(DigitsSplit::train, 4000, 1);
    std::vector<double> by_writer(40);
    double mean = 0;
    double within = 0;
    std::vector<double> ink(4000);
    for (std::size_t i = 0; i < 4000; ++i) {
      for (std::size_t p = 0; p < 784; ++p) ink[i] += digits.images[i * 784 + p] / 255.0;
      by_writer[i / 100] += ink[i] / 100;
      mean += ink[i] / 4000;
    }
    for (std::size_t i = 0; i < 4000; ++i) {
      within += std::pow(ink[i] - by_writer[i / 100], 2) / 4000;
    }
    double between = 0;
    for (const double writer : by_writer) between += std::pow(writer - mean, 2) / 40;
    CHECK(between > 10 * within / 100);  // writers all alike would give about within / 100
  }

  TEST_CASE("digits: our sine is a sine") {
    for (float x = -40; x < 40; x += 0.0137F) {
      CHECK(std::abs(troupe::detail::sine(x) - std::sin(static_cast<double>(x))) < 2e-5);
      CHECK(std::abs(troupe::detail::cosine(x) - std::cos(static_cast<double>(x))) < 2e-5);
    }
  }

  TEST_CASE("digits: the files are MNIST's in name, type and shape") {
    troupe::testing::TempDir dir;
    troupe::write_digits(dir / "new" / "digits/", 12, 3, 1);  // the parent is made too
    const fs::path made = dir / "new" / "digits";
    CHECK(entries_in(made) == 4);
    CHECK(entries_in(dir / "new") == 1);  // nothing temporary is left
    const auto images = troupe::read_idx(made / kNames[0]);
    CHECK(images.type == troupe::IdxType::uint8);
    CHECK(images.dims == std::vector<std::int64_t>{12, 28, 28});
    const Digits digits = troupe::generate_digits(DigitsSplit::train, 12, 1);
    CHECK(std::equal(
        digits.images.begin(), digits.images.end(), images.bytes.begin(), images.bytes.end(),
        [](std::uint8_t a, std::byte b) { return a == std::to_integer<std::uint8_t>(b); }));
    CHECK(troupe::read_idx(made / kNames[3]).dims == std::vector<std::int64_t>{3});
  }

  TEST_CASE("digits: an empty directory is used, any other is left as it is") {
    troupe::testing::TempDir dir;
    fs::create_directory(dir / "empty");
    troupe::write_digits(dir / "empty", 2, 1, 1);
    CHECK(entries_in(dir / "empty") == 4);
    const std::string before = file_digest(dir / "empty" / kNames[0]);
    CHECK_THROWS_AS(troupe::write_digits(dir / "empty", 2, 1, 2), troupe::ConfigError);
    CHECK(file_digest(dir / "empty" / kNames[0]) == before);

    std::ofstream(dir / "file") << "x";
    CHECK_THROWS_AS(troupe::write_digits(dir / "file", 2, 1, 2), troupe::ConfigError);
    CHECK(fs::file_size(dir / "file") == 1);
    CHECK(entries_in(dir.path()) == 2);
  }

  TEST_CASE("digits: what cannot be made is refused") {
    troupe::testing::TempDir dir;
    CHECK_THROWS_AS((void)troupe::generate_digits(DigitsSplit::train, -1, 1), troupe::ConfigError);
    CHECK_THROWS_AS(troupe::write_digits(dir / "a", 1, -1, 1), troupe::ConfigError);
    std::ofstream(dir / "file") << "x";
    CHECK_THROWS_AS(troupe::write_digits(dir / "file" / "below", 1, 1, 1), troupe::Error);
  }
}
