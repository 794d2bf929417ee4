#include <memory>
#include <thread>
#include <vector>

#include "examples/digits/example_data.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"

namespace {

using troupe::DigitsSplit;
using troupe::GeneratedDigits;

constexpr std::uint64_t kSeed = 7;
constexpr troupe::ByteScale kScale{0.5, 1};

// What `digits` must give for `rows`.
void check_digits(const std::vector<at::Tensor>& fields, const troupe::Digits& digits,
                  const std::vector<std::int64_t>& rows) {
  REQUIRE(fields.size() == 2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto number = static_cast<std::size_t>(rows[i]);
    const at::Tensor image = fields[0][static_cast<std::int64_t>(i)].view({-1});
    const auto* const pixels = digits.images.data() + number * troupe::kDigitPixels;
    bool same = true;
    for (std::int64_t at = 0; at < troupe::kDigitPixels; ++at) {
      same = same && image.data_ptr<float>()[at] == static_cast<float>(pixels[at]) * 0.5F - 1.0F;
    }
    CHECK(same);
    CHECK(fields[1].data_ptr<std::int64_t>()[i] == digits.labels[number]);
  }
}

}  // namespace

TEST_SUITE("data") {
  TEST_CASE("generated_digits: what is drawn when it is read is what was drawn before") {
    const troupe::Digits all = troupe::generate_digits(DigitsSplit::train, 400, kSeed);
    const GeneratedDigits digits(DigitsSplit::train, 250, kSeed, kScale);
    CHECK(digits.size() == 250);
    const std::vector<std::int64_t> rows = {249, 3, 120, 3, 0};
    check_digits(digits.get(torch::tensor(rows)), all, rows);
    check_digits(digits.get(torch::tensor(rows, torch::kInt)), all, rows);
  }

  TEST_CASE("generated_digits: several threads read at once while the rest is drawn") {
    const troupe::Digits all = troupe::generate_digits(DigitsSplit::test, 300, kSeed);
    const GeneratedDigits digits(DigitsSplit::test, 300, kSeed, kScale);
    std::vector<std::vector<at::Tensor>> read(4);
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 299; row >= 0; --row) rows.push_back(row);
    std::vector<std::thread> readers;
    for (auto& mine : read) {
      readers.emplace_back([&digits, &mine, &rows] { mine = digits.get(torch::tensor(rows)); });
    }
    for (std::thread& reader : readers) reader.join();
    for (const auto& mine : read) check_digits(mine, all, rows);
  }

  TEST_CASE("generated_digits: can end while the rest is drawn, and without having been read") {
    const auto digits =
        std::make_unique<GeneratedDigits>(DigitsSplit::train, 20'000'000 / 784, kSeed, kScale);
    (void)digits->get(torch::tensor({std::int64_t{5}}));
    const GeneratedDigits unread(DigitsSplit::train, 10, kSeed, kScale);
  }

  TEST_CASE("generated_digits: what is not there is refused") {
    const GeneratedDigits digits(DigitsSplit::train, 10, kSeed, kScale);
    CHECK_THROWS_AS((void)digits.get(torch::tensor({std::int64_t{10}})), troupe::DataError);
    CHECK_THROWS_AS((void)digits.get(torch::tensor({std::int64_t{-1}})), troupe::DataError);
    CHECK(GeneratedDigits(DigitsSplit::test, 0, kSeed, kScale).size() == 0);
  }

  TEST_CASE("mnist_or_digits: without a directory, the generated digits") {
    const troupe::Splits splits = troupe::mnist_or_digits({}, 5000);
    CHECK(splits.train->size() == 10'000);
    CHECK(splits.validation->size() == 1'000);
    CHECK(splits.test->size() == 2'000);

    const auto digits =
        troupe::generate_digits(troupe::DigitsSplit::train, 11'000, troupe::kDefaultDigitsSeed);
    const auto batch = splits.validation->get(torch::arange(1000));  // the last 1,000
    REQUIRE(batch.size() == 2);
    CHECK(batch[0].sizes() == at::IntArrayRef({1000, 1, 28, 28}));
    CHECK(batch[0].dtype() == torch::kFloat);
    CHECK(batch[1].sizes() == at::IntArrayRef({1000}));
    CHECK(batch[1].dtype() == torch::kLong);
    const auto pixels = torch::tensor(digits.images, torch::kByte).view({11'000, 1, 28, 28});
    const auto expected = (pixels.slice(0, 10'000).to(torch::kDouble) / 255 - 0.1307) / 0.3081;
    CHECK((batch[0].to(torch::kDouble) - expected).abs().max().item<double>() < 1e-6);
    const auto labels = torch::tensor(digits.labels, torch::kByte);
    CHECK(torch::equal(batch[1], labels.slice(0, 10'000).to(torch::kLong)));
    CHECK_THROWS_WITH_AS((void)troupe::mnist_or_digits({"", 10'001}, 5000),
                         doctest::Contains("--train-examples asks for 10001 of 10000"),
                         troupe::ConfigError);
    // Reading does not change what is in memory.
    CHECK(torch::equal(splits.validation->get(torch::arange(1000))[0], batch[0]));
  }
}
