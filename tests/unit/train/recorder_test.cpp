// What hooks and loops record to be looked at: where it is kept, and what is written of it.
#include "troupe/hooks/tensors/recorder.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/train/loop_runs.h"
#include "troupe/data/formats/image_file.h"

namespace recorder_test {

using namespace troupe::testing;  // NOLINT: this file's subject
using troupe::detail::picture_of;
using troupe::detail::spread_of;

namespace {

troupe::Image pixels_of(const at::Tensor& image, int channels = 3) {
  const TempDir dir;
  std::ofstream(dir.path() / "p.png", std::ios::binary) << picture_of("p", image).png;
  return troupe::read_image(dir.path() / "p.png", channels);
}

using Pixels = std::vector<std::uint8_t>;

/// Records in both steps, each name twice.
struct RecordingHooks : TinyHooks {
  static void record(troupe::Replica& replica) {
    for (int i = 0; i < 2; ++i) {
      replica.recorder().log_image("inputs", torch::full({2, 3}, i));
      replica.recorder().log_histogram("outputs", torch::full({4}, i));
      replica.recorder().log_text("note", i == 0 ? "first" : "second");
    }
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    record(replica);
    return TinyHooks::train_step(replica, batch);
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    record(replica);
    return TinyHooks::validation_step(replica, batch);
  }
};

/// "note 1 first", "outputs 1 [4]", in the order of the file.
std::vector<std::string> lines_in(const std::filesystem::path& file, const char* tag) {
  std::vector<std::string> found;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    const std::string step = std::to_string(json.at("step").get<int>());
    if (json.contains(tag)) found.push_back(step + " " + json.at(tag).get<std::string>());
    if (json.value("tag", "") == tag) found.push_back(step + " " + json.at("counts").dump());
  }
  return found;
}

int pictures_in(const std::filesystem::path& dir) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().filename().string().rfind("events", 0) != 0) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(in), {});
    for (std::size_t at = all.find("\x89PNG"); at != std::string::npos;
         at = all.find("\x89PNG", at + 1))
      ++count;
  }
  return count;
}

using Found = std::vector<std::string>;

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("recorder: a picture's bytes, of any shape and type that is one") {
    const auto real = torch::tensor({-1.0, 0.0, 0.5, 1.0, 7.0, std::nan("")}).view({2, 3});
    CHECK(pixels_of(real, 1).pixels == Pixels{0, 0, 128, 255, 255, 0});
    CHECK(pixels_of(real.unsqueeze(0).to(torch::kHalf), 1).pixels ==
          Pixels{0, 0, 128, 255, 255, 0});
    const auto whole = torch::tensor({0, 1, 255, 300, -5, 9}, torch::kLong).view({2, 3});
    CHECK(pixels_of(whole, 1).pixels == Pixels{0, 1, 255, 255, 0, 9});
    CHECK(pixels_of(whole.eq(1), 1).pixels == Pixels{0, 255, 0, 0, 0, 0});
    const auto coloured = torch::arange(12, torch::kByte).view({3, 2, 2});
    const troupe::Image image = pixels_of(coloured);
    CHECK(image.height == 2);
    CHECK(image.pixels == Pixels{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
    CHECK(pixels_of(coloured.flip(2).detach().requires_grad_(false)).pixels[0] == 1);
  }

  TEST_CASE("recorder: what is no picture, and no spread, is refused by name") {
    for (const at::Tensor& wrong :
         {at::Tensor(), torch::zeros({3}), torch::zeros({2, 4, 4}), torch::zeros({1, 3, 4, 4}),
          torch::zeros({0, 4}), torch::zeros({3, 4}, torch::kComplexFloat)}) {
      CHECK_THROWS_WITH_AS((void)picture_of("digits", wrong),
                           doctest::Contains("the image \"digits\" has the shape"),
                           troupe::ConfigError);
    }
    CHECK_THROWS_AS((void)spread_of("h", torch::zeros({3}, torch::kComplexFloat)),
                    troupe::ConfigError);
    CHECK_THROWS_AS((void)spread_of("h", at::Tensor()), troupe::ConfigError);
    CHECK(spread_of("h", torch::zeros({2, 3}, torch::kLong)).values.numel() == 6);
  }

  TEST_CASE("recorder: hooks' and loop's, once a step and once a validation, under their steps") {
    const TempDir dir;
    troupe::TrainOptions options = loop_options(dir.path());
    options.epochs = 1;
    options.save_summary_steps = 1;
    Program program(RecordingHooks(), options);
    const auto run = program.begin();
    for (auto& epoch : run->epochs()) {
      for (const auto& batch : epoch) {
        run->train_step(batch);
        run->recorder().log_text("note", "the hook was first");
        run->recorder().log_text("of the loop", std::to_string(batch.step));
      }
      (void)run->validate();
    }
    (void)run->finish();
    const auto lines = dir.path() / "summaries.jsonl";
    CHECK(lines_in(lines, "note") == Found{"1 first", "2 first", "3 first"});
    CHECK(lines_in(lines, "of the loop") == Found{"1 0", "2 1", "3 2"});
    CHECK(lines_in(lines, "validation/note") == Found{"3 first"});
    const auto spreads = dir.path() / "histograms.jsonl";
    CHECK(lines_in(spreads, "outputs") == Found{"1 [4]", "2 [4]", "3 [4]"});
    CHECK(lines_in(spreads, "validation/outputs") == Found{"3 [4]"});
    CHECK(pictures_in(dir.path()) == 4);
  }

  TEST_CASE("recorder: without summaries nothing is kept, and nothing is computed") {
    Program program(RecordingHooks(), loop_options());
    const auto run = program.begin();
    for (auto& epoch : run->epochs()) {
      for (const auto& batch : epoch) {
        run->train_step(batch);
        CHECK_FALSE(run->recorder().wants("anything"));
        run->recorder().log_image("no picture", torch::zeros({3}));  // not looked at
      }
    }
    (void)run->finish();
  }
}

}  // namespace recorder_test
