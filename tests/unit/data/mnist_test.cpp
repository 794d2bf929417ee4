#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/digits/digits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/data/idx_files.h"
#include "troupe/core/error.h"
#include "troupe/data/formats/idx.h"
#include "troupe/data/formats/picture_sets.h"

namespace mnist_test {

namespace {

namespace fs = std::filesystem;
using troupe::DataOptions;
using troupe::Splits;
using troupe::testing::TempDir;

DataOptions in_dir(const fs::path& dir, std::int64_t train_examples = 0) {
  DataOptions options;
  options.data_dir = dir.string();
  options.train_examples = train_examples;
  return options;
}

std::vector<at::Tensor> range(const troupe::Dataset& dataset, std::int64_t begin,
                              std::int64_t end) {
  return dataset.get(torch::arange(begin, end, torch::kLong));
}

// The real files, or empty.
fs::path real_mnist() {
  const char* const named = std::getenv("TROUPE_MNIST_DIR");
  const fs::path dir =
      named != nullptr ? fs::path(named) : fs::path(TROUPE_SOURCE_DIR) / "../shared/data/mnist";
  return fs::exists(dir / "train-images-idx3-ubyte.gz") ||
                 fs::exists(dir / "train-images-idx3-ubyte")
             ? dir
             : fs::path();
}

std::string complaint_about(const fs::path& dir) {
  try {
    (void)troupe::load_mnist(in_dir(dir), 2);
    return "";
  } catch (const troupe::DataError& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("mnist: without a directory there is nothing to read") {
    CHECK_THROWS_WITH_AS((void)troupe::load_mnist({}, 0), doctest::Contains("--data-dir"),
                         troupe::ConfigError);
  }

  TEST_CASE("mnist: from files, plain and gzip, validation is the end of the training file") {
    TempDir dir;
    troupe::write_digits(dir / "digits", 50, 20, 3);
    const Splits splits = troupe::load_mnist(in_dir(dir / "digits"), 10);
    CHECK(splits.train->size() == 40);
    CHECK(splits.validation->size() == 10);
    CHECK(splits.test->size() == 20);
    const Splits whole = troupe::load_mnist(in_dir(dir / "digits"), 0);
    CHECK(whole.validation == nullptr);
    const auto all = range(*whole.train, 0, 50);
    CHECK(torch::equal(range(*splits.train, 0, 40)[0], all[0].slice(0, 0, 40)));
    CHECK(torch::equal(range(*splits.validation, 0, 10)[0], all[0].slice(0, 40)));
    CHECK(torch::equal(range(*splits.validation, 0, 10)[1], all[1].slice(0, 40)));
    CHECK_FALSE(torch::equal(range(*splits.test, 0, 20)[0], all[0].slice(0, 0, 20)));
  }

  TEST_CASE("mnist: --train-examples keeps the first ones, and never those of validation") {
    TempDir dir;
    troupe::write_digits(dir / "digits", 50, 20, 3);
    const Splits few = troupe::load_mnist(in_dir(dir / "digits", 7), 10);
    CHECK(few.train->size() == 7);
    const Splits whole = troupe::load_mnist(in_dir(dir / "digits"), 0);
    CHECK(torch::equal(range(*few.train, 0, 7)[0], range(*whole.train, 0, 7)[0]));
    CHECK(torch::equal(range(*few.validation, 0, 10)[0], range(*whole.train, 40, 50)[0]));
    CHECK(troupe::load_mnist(in_dir(dir / "digits", 40), 10).train->size() == 40);
    CHECK_THROWS_WITH_AS((void)troupe::load_mnist(in_dir(dir / "digits", 41), 10),
                         doctest::Contains("--train-examples asks for 41 of 40"),
                         troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::load_mnist(in_dir(dir / "digits", -1), 10), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::load_mnist(in_dir(dir / "digits"), 51), troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::load_mnist(in_dir(dir / "digits"), -1), troupe::ConfigError);
  }

  TEST_CASE("idx images: any size and number of classes, mean and deviation measured or given") {
    using troupe::testing::idx_header;
    using troupe::testing::write_file;
    const TempDir dir;
    // Four training pictures of 2 x 3 and two for the test; the last training one validates.
    std::string pixels;
    for (int i = 0; i < 24; ++i) pixels += static_cast<char>(i < 18 ? i * 10 : 255);
    write_file(dir / "train-images-idx3-ubyte", idx_header(8, {4, 2, 3}) + pixels);
    write_file(dir / "train-labels-idx1-ubyte", idx_header(8, {4}) + std::string("\31\0\3\7", 4));
    write_file(dir / "t10k-images-idx3-ubyte", idx_header(8, {2, 2, 3}) + pixels.substr(0, 12));
    write_file(dir / "t10k-labels-idx1-ubyte", idx_header(8, {2}) + std::string("\31\0", 2));
    troupe::IdxImageOptions form;
    form.validation_examples = 1;
    const auto read = troupe::load_idx_images(in_dir(dir.path()), form);
    CHECK(read.classes == 26);
    CHECK(read.height == 2);
    CHECK(read.width == 3);
    CHECK(read.splits.validation->size() == 1);
    const auto train = range(*read.splits.train, 0, 3);
    CHECK((train[0].sizes() == at::IntArrayRef({3, 1, 2, 3})));
    CHECK(torch::equal(train[1], torch::tensor({25, 0, 3}, torch::kInt64)));
    // Of what trains, and only of that.
    CHECK(train[0].mean().item<double>() == doctest::Approx(0).epsilon(1e-6));
    CHECK(train[0].std(/*unbiased=*/false).item<double>() == doctest::Approx(1));
    const auto few = troupe::load_idx_images(in_dir(dir.path(), 2), form);
    CHECK(few.mean == doctest::Approx(55 / 255.0));
    CHECK(few.mean < read.mean);
    form.mean = 0.5;
    form.deviation = 0.25;
    const auto given = range(*troupe::load_idx_images(in_dir(dir.path()), form).splits.test, 0, 2);
    CHECK(given[0][1][0][1][2].item<float>() == doctest::Approx((110 / 255.0 - 0.5) / 0.25));

    form.classes = 25;
    CHECK_THROWS_WITH_AS((void)troupe::load_idx_images(in_dir(dir.path()), form),
                         doctest::Contains("has label 25 for example 0, expected 0 to 24"),
                         troupe::DataError);
    form.classes = 257;
    CHECK_THROWS_AS((void)troupe::load_idx_images(in_dir(dir.path()), form), troupe::ConfigError);
    form.classes = 0;
    form.deviation.reset();
    CHECK_THROWS_AS((void)troupe::load_idx_images(in_dir(dir.path()), form), troupe::ConfigError);
    form.mean.reset();
    write_file(dir / "t10k-labels-idx1-ubyte", idx_header(8, {2}) + std::string("\32\0", 2));
    CHECK_THROWS_WITH_AS((void)troupe::load_idx_images(in_dir(dir.path()), form),
                         doctest::Contains("has label 26 for example 0"), troupe::DataError);
    write_file(dir / "train-images-idx3-ubyte", idx_header(8, {4, 2, 3}) + std::string(24, 'a'));
    CHECK_THROWS_WITH_AS((void)troupe::load_idx_images(in_dir(dir.path()), form),
                         doctest::Contains("no two different pixels"), troupe::DataError);
    write_file(dir / "train-images-idx3-ubyte", idx_header(8, {4, 0, 3}));
    CHECK_THROWS_WITH_AS((void)troupe::load_idx_images(in_dir(dir.path()), form),
                         doctest::Contains("[4, 0, 3], expected type 0x08 [N, 1 to 4096"),
                         troupe::DataError);
  }

  TEST_CASE("mnist: files that do not belong together are refused") {
    using troupe::testing::idx_header;
    using troupe::testing::write_file;
    TempDir dir;
    const fs::path digits = dir / "digits";
    troupe::write_digits(digits, 5, 5, 3);
    REQUIRE(complaint_about(digits).empty());
    const auto with_labels = [&](const std::string& bytes) {
      write_file(digits / "train-labels-idx1-ubyte", bytes);
      return complaint_about(digits);
    };
    const std::string good = idx_header(8, {5}) + std::string(5, '\3');
    CHECK(with_labels(good).empty());
    CHECK(with_labels(idx_header(8, {4}) + std::string(4, '\3')).find("has 4 labels") !=
          std::string::npos);
    CHECK(with_labels(idx_header(8, {5}) + "\1\2\3\12\1").find("has label 10 for example 3") !=
          std::string::npos);
    CHECK(with_labels(idx_header(9, {5}) + "\1\2\3\377\1").find("holds type 0x09 [5]") !=
          std::string::npos);
    CHECK(with_labels(idx_header(8, {5, 1}) + "\1\2\3\1\1").find("holds type 0x08 [5, 1]") !=
          std::string::npos);
    CHECK(with_labels(good).empty());
    write_file(digits / "t10k-images-idx3-ubyte",
               idx_header(8, {5, 28, 29}) + std::string(4060, 'a'));
    CHECK(complaint_about(digits).find("[5, 28, 29], expected type 0x08 [N, 28, 28]") !=
          std::string::npos);
    fs::remove(digits / "t10k-images-idx3-ubyte");
    CHECK(complaint_about(digits).find("has no t10k-images-idx3-ubyte") != std::string::npos);
    CHECK(complaint_about(dir / "none").find("is not a directory") != std::string::npos);
  }

  TEST_CASE("mnist: the real files") {
    const fs::path dir = real_mnist();
    if (dir.empty()) {
      MESSAGE("skipped: no MNIST files; name their directory in TROUPE_MNIST_DIR");
      return;
    }
    const Splits splits = troupe::load_mnist(in_dir(dir), 5000);
    CHECK(splits.train->size() == 55'000);
    CHECK(splits.validation->size() == 5'000);
    CHECK(splits.test->size() == 10'000);
    const auto first = range(*splits.train, 0, 10);
    const std::vector<std::int64_t> labels = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
    CHECK(torch::equal(first[1], torch::tensor(labels)));
    const auto train = range(*splits.train, 0, 55'000)[0];
    CHECK(std::abs(train.mean().item<double>()) < 0.01);  // normalised with MNIST's own numbers
    CHECK(std::abs(train.std().item<double>() - 1) < 0.01);
  }
}

}  // namespace mnist_test
