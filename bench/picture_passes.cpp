#include "bench/picture_passes.h"

#include <ATen/Functions.h>
#include <jpeglib.h>

#include <chrono>
#include <cstdio>  // before jpeglib.h, which needs FILE
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/markdown_table.h"
#include "bench/summary.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/image_folder.h"
#include "troupe/data/loader.h"
#include "troupe/data/shard_plan.h"
#include "troupe/data/split_mix.h"

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kWidth = 320;
constexpr int kHeight = 240;
constexpr std::int64_t kBatch = 64;
constexpr int kThreads = 4;

/// Smooth colours with noise, so that there is something to decode.
void write_jpeg(const fs::path& path, detail::SplitMix& random) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    throw DataError(text("'", path.string(), "' cannot be written."), "make room in TMPDIR.");
  }
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = kWidth;
  info.image_height = kHeight;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> line(std::size_t{3} * kWidth);
  for (unsigned y = 0; y < kHeight; ++y) {
    for (unsigned x = 0; x < kWidth; ++x) {
      const auto noise = static_cast<unsigned>(random.below(32));
      line[3 * x] = static_cast<std::uint8_t>(x / 2 + noise);
      line[3 * x + 1] = static_cast<std::uint8_t>(y / 2 + noise);
      line[3 * x + 2] = static_cast<std::uint8_t>((x + y) / 4 + noise);
    }
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(file);
}

/// A folder of pictures of two classes that is gone with the object.
class PictureFolder {
 public:
  explicit PictureFolder(int pictures)
      : path_(fs::temp_directory_path() / text("troupe-bench-pictures-", std::random_device{}())) {
    detail::SplitMix random(1);
    for (const char* name : {"even", "odd"}) fs::create_directories(path_ / name);
    for (int i = 0; i < pictures; ++i) {
      write_jpeg(path_ / (i % 2 == 0 ? "even" : "odd") / text(i, ".jpg"), random);
    }
  }
  ~PictureFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

DistributedDataset by_threads(const std::shared_ptr<const Dataset>& folder, int threads) {
  ShardPlanOptions plan;
  plan.examples = folder->size();
  plan.global_batch = kBatch;
  LoaderOptions options;
  options.threads = threads;
  return {folder, ShardPlan(plan), 0, 1, options};
}

/// The batches' sums, each times its place, so that it tells of the order too.
double sum_of(const DistributedDataset& data) {
  double sum = 0;
  for (const DistributedBatch& batch : data.epoch(0)) {
    const at::Tensor& pictures = batch.replicas.front().fields.front();
    sum += static_cast<double>(batch.step + 1) * pictures.sum(at::kDouble).item<double>();
  }
  return sum;
}

/// Of a pass whose batches nobody looks at.
double seconds_of(const DistributedDataset& data, std::int64_t epoch) {
  const auto start = std::chrono::steady_clock::now();
  for ([[maybe_unused]] const DistributedBatch& batch : data.epoch(epoch)) continue;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> rates_of(const nlohmann::ordered_json& results, const char* threads) {
  return results.at(threads).at("samples_per_second").get<std::vector<double>>();
}

}  // namespace

nlohmann::ordered_json measure_pictures(int rounds, int pictures) {
  const PictureFolder files(pictures);
  const auto folder = std::make_shared<ImageFolder>(files.path());
  const DistributedDataset by_one = by_threads(folder, 1);
  const DistributedDataset by_four = by_threads(folder, kThreads);
  if (sum_of(by_one) != sum_of(by_four)) {
    throw DataError("one and four loader threads do not read the same.",
                    "this is a bug; report it.");
  }
  std::vector<double> one;
  std::vector<double> four;
  for (int round = 0; round < rounds; ++round) {
    for (const bool many : {round % 2 == 0, round % 2 != 0}) {
      const double seconds = seconds_of(many ? by_four : by_one, round + 1);
      (many ? four : one).push_back(pictures / seconds);
    }
  }
  return {{"threads_1", {{"samples_per_second", one}}},
          {"threads_4", {{"samples_per_second", four}}}};
}

std::string picture_table(const nlohmann::ordered_json& results) {
  const auto one = rates_of(results, "threads_1");
  const auto four = rates_of(results, "threads_4");
  MarkdownTable rows({"loader threads", "JPEGs/s", "4 / 1"});
  rows.add({"1", range_text(summarize(one)), "-"});
  rows.add({"4", range_text(summarize(four)), ratio_text(summarize(ratios(four, one)))});
  return rows.text();
}

}  // namespace troupe::bench
