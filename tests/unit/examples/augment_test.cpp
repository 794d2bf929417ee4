#include "examples/resnet/augment.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "examples/digits/example_data.h"
#include "tests/support/torch_prelude.h"
#include "troupe/data/dataset.h"

namespace {

/// Whether `moved` [C, H, W] is `picture` shifted by (dx, dy) with zeros, mirrored or not.
bool is_moved(const torch::Tensor& moved, const torch::Tensor& picture, std::int64_t dy,
              std::int64_t dx, bool mirrored) {
  constexpr auto most = kMostShift;
  const auto padded = torch::constant_pad_nd(picture, {most, most, most, most}, 0);
  const auto crop = padded.narrow(1, dy, picture.size(1)).narrow(2, dx, picture.size(2));
  return torch::equal(moved, mirrored ? crop.flip({2}) : crop);
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("augment: every picture by itself, moved and mirrored") {
    torch::manual_seed(3);
    const auto pictures = torch::rand({64, 3, 12, 16}) + 1;
    const auto moved = shift_and_flip(pictures);
    REQUIRE((moved.sizes() == pictures.sizes()));
    std::set<std::pair<std::int64_t, std::int64_t>> shifts;
    int mirrored = 0;
    for (std::int64_t b = 0; b < 64; ++b) {
      int found = 0;
      for (std::int64_t i = 0; i < 9 * 9 * 2; ++i) {
        if (!is_moved(moved[b], pictures[b], i / 18, i / 2 % 9, i % 2 == 1)) continue;
        ++found;
        shifts.insert({i / 18, i / 2 % 9});
        mirrored += static_cast<int>(i % 2);
      }
      CHECK(found == 1);
    }
    CHECK(shifts.size() > 30);  // of 81, by 64 pictures
    CHECK(mirrored > 16);
    CHECK(mirrored < 48);
  }

  TEST_CASE("augment: the same stream moves pictures the same way") {
    const auto pictures = torch::rand({5, 3, 8, 8});
    torch::manual_seed(3);
    const auto first = shift_and_flip(pictures);
    const auto second = shift_and_flip(pictures);
    CHECK_FALSE(torch::equal(first, second));
    torch::manual_seed(3);
    CHECK(torch::equal(shift_and_flip(pictures), first));
  }

  TEST_CASE("cifar10: generated pictures, normalised, in three splits") {
    troupe::DataOptions options;
    options.train_examples = 100;
    const troupe::Splits splits = troupe::cifar10_or_shapes(options, 5000);
    CHECK(splits.train->size() == 100);
    CHECK(splits.validation->size() == 1000);
    CHECK(splits.test->size() == 2000);
    const auto batch = splits.train->get(torch::arange(100));
    REQUIRE(batch.size() == 2);
    CHECK((batch[0].sizes() == torch::IntArrayRef{100, 3, 32, 32}));
    CHECK((batch[0].scalar_type() == torch::kFloat32));
    CHECK(batch[0].min().item<double>() >= -2);
    CHECK(batch[0].max().item<double>() <= 2);
    CHECK(std::abs(batch[0].mean().item<double>()) < 0.3);
    CHECK((batch[1].scalar_type() == torch::kInt64));
    CHECK(batch[1].max().item<std::int64_t>() <= 9);
  }
}
