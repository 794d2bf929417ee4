// Shuffled, normalised batches of MNIST on one core: Troupe's pipeline against torch::data's MNIST
// with Normalize and Stack, on the same files, in the same process and the same rounds. Before
// that, JPEGs by one loader thread and by four, on all cores.
#include <sched.h>
#include <torch/torch.h>

#include <boost/program_options/value_semantic.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <utility>

#include "bench/bench_options.h"
#include "bench/machine_facts.h"
#include "bench/markdown_table.h"
#include "bench/picture_passes.h"
#include "bench/summary.h"
#include "examples/digits/digits.h"
#include "examples/digits/example_data.h"
#include "troupe/cli/run_main.h"
#include "troupe/core/error.h"
#include "troupe/core/heap.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/idx.h"
#include "troupe/data/loader.h"
#include "troupe/data/shard_plan.h"

namespace troupe::bench {
namespace {

constexpr std::int64_t kExamples = 60'000;  // what torch::data's MNIST insists on
constexpr std::int64_t kBatch = 64;
constexpr double kMean = 0.1307;  // load_mnist's
constexpr double kDeviation = 0.3081;

/// MNIST's training files, uncompressed, in a directory that is gone with the object.
class TrainingFiles {
 public:
  /// Copies those in `data_dir`; generates digits where it is empty.
  explicit TrainingFiles(const std::string& data_dir)
      : path_(std::filesystem::temp_directory_path() /
              text("troupe-bench-data-", std::random_device{}())) {
    if (data_dir.empty()) {
      write_digits(path_, kExamples, 1, kDefaultDigitsSeed);
      return;
    }
    std::filesystem::create_directory(path_);
    for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
      const IdxArray array = read_idx(find_idx(data_dir, name));
      if (array.dims.empty() || array.dims[0] != kExamples) {
        throw ConfigError(text("'", data_dir, "' does not have the ", kExamples,
                               " training examples that torch::data's MNIST insists on."),
                          "name a directory with the real files, or leave --data-dir out.");
      }
      write_idx(path_ / name, array);
    }
    for (const char* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
      write_idx(path_ / name, read_idx(find_idx(data_dir, name)));
    }
  }
  ~TrainingFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TrainingFiles(const TrainingFiles&) = delete;
  TrainingFiles& operator=(const TrainingFiles&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// What a pass over the examples came to.
struct Pass {
  std::int64_t examples = 0;
  std::int64_t label_sum = 0;  // of checked passes, as the next
  double pixel_sum = 0;
  double seconds = 0;
};

enum class Look { no, yes };

void take(Pass& pass, const at::Tensor& images, const at::Tensor& labels, Look look) {
  pass.examples += images.size(0);
  if (look == Look::no) return;
  pass.label_sum += labels.sum().item<std::int64_t>();
  pass.pixel_sum += images.sum(at::kDouble).item<double>();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

DistributedDataset our_data(const std::string& directory) {
  DataOptions options;
  options.data_dir = directory;
  const auto dataset = mnist_or_digits(options, 0).train;
  ShardPlanOptions plan;
  plan.examples = dataset->size();
  plan.global_batch = kBatch;
  return {dataset, ShardPlan(plan), 0, 1};
}

Pass our_pass(const DistributedDataset& data, std::int64_t epoch, std::int64_t batches, Look look) {
  Pass pass;
  const auto start = std::chrono::steady_clock::now();
  for (const DistributedBatch& batch : data.epoch(epoch)) {
    const auto [images, labels] = batch.replicas.front().unpack<2>();
    take(pass, images, labels, look);
    if (batch.step + 1 == batches) break;
  }
  pass.seconds = seconds_since(start);
  return pass;
}

template <class Loader>
Pass torch_pass(Loader& loader, std::int64_t batches, Look look) {
  Pass pass;
  const auto start = std::chrono::steady_clock::now();
  for (const torch::data::Example<>& batch : loader) {
    take(pass, batch.data, batch.target, look);
    if (--batches == 0) break;
  }
  pass.seconds = seconds_since(start);
  return pass;
}

void check_same(const Pass& ours, const Pass& theirs) {
  const bool same = ours.examples == kExamples && theirs.examples == kExamples &&
                    ours.label_sum == theirs.label_sum &&
                    std::abs(ours.pixel_sum - theirs.pixel_sum) <=
                        1e-6 * kExamples * 784;  // float32 roundings, in another order
  if (same) return;
  throw DataError(
      text("the two pipelines do not read the same: ", ours.examples, " and ", theirs.examples,
           " examples, labels ", ours.label_sum, " and ", theirs.label_sum, ", pixels ",
           ours.pixel_sum, " and ", theirs.pixel_sum, "."),
      "this is a bug; report it.");
}

/// One core for each pipeline and whatever threads it has.
void stay_on_one_core() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

nlohmann::ordered_json measure(const std::string& data_dir, int rounds, std::int64_t batches) {
  const TrainingFiles files(data_dir);
  const DistributedDataset ours = our_data(files.path());
  auto theirs = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      torch::data::datasets::MNIST(files.path())
          .map(torch::data::transforms::Normalize<>(kMean, kDeviation))
          .map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions().batch_size(kBatch).workers(0));
  check_same(our_pass(ours, 0, 0, Look::yes), torch_pass(*theirs, 0, Look::yes));
  std::vector<double> our_rates;
  std::vector<double> their_rates;
  for (int round = 0; round < rounds; ++round) {
    for (const bool our_turn : {round % 2 == 0, round % 2 != 0}) {
      const Pass pass = our_turn ? our_pass(ours, round + 1, batches, Look::no)
                                 : torch_pass(*theirs, batches, Look::no);
      (our_turn ? our_rates : their_rates)
          .push_back(static_cast<double>(pass.examples) / pass.seconds);
    }
  }
  return {{"troupe", {{"samples_per_second", our_rates}}},
          {"torch_data", {{"samples_per_second", their_rates}}}};
}

std::vector<double> rates_of(const nlohmann::ordered_json& results, const char* pipeline) {
  return results.at(pipeline).at("samples_per_second").get<std::vector<double>>();
}

std::string table(const nlohmann::ordered_json& results) {
  const auto ours = rates_of(results, "troupe");
  const auto theirs = rates_of(results, "torch_data");
  MarkdownTable rows({"pipeline", "samples/s", "Troupe / torch::data"});
  rows.add({"Troupe", range_text(summarize(ours)), ratio_text(summarize(ratios(ours, theirs)))});
  rows.add({"torch::data, MNIST + Normalize + Stack", range_text(summarize(theirs)), "-"});
  return rows.text();
}

int run(int argc, const char* const* argv) {
  std::string data_dir;
  int pictures = 4096;
  namespace po = boost::program_options;
  po::options_description extra;
  extra.add_options()("data-dir", po::value(&data_dir)->value_name("DIR"),
                      "MNIST's four files (default: as many generated digits)")(
      "pictures", po::value(&pictures)->value_name("N"),
      "JPEGs of an epoch (default: 4096; 0: leave them out)");
  const BenchOptions options = parse_bench_options(
      argc, argv, "Measures shuffled, normalised batches: Troupe against torch::data.", extra);
  const bool smoke = options.effort == Effort::smoke;
  const int rounds = options.rounds > 0 ? options.rounds : (smoke ? 2 : 9);
  configure_log(LogLevel::warning, "");
  prepare_heap(1);
  at::set_num_threads(1);
  nlohmann::ordered_json report = {{"benchmark", "data"}, {"machine", machine_facts()}};
  if (smoke) pictures = 128;
  if (pictures > 0) report["pictures"] = measure_pictures(rounds, pictures);
  stay_on_one_core();
  report["rounds"] = rounds;
  report["batch_size"] = kBatch;
  report["data"] = data_dir.empty() ? "generated digits" : data_dir;
  report["results"] = measure(data_dir, rounds, smoke ? 20 : 0);
  report["load_average_after"] = load_average();
  std::cout << "## Shuffled, normalised 28x28 pictures in batches of " << kBatch << ", one core, "
            << rounds << " rounds\n\n"
            << machine_line(report["machine"]) << "\n\n"
            << table(report["results"]) << std::flush;
  if (pictures > 0) {
    std::cout << "\n## JPEGs of 320x240 as 224x224, in batches of " << kBatch << ", all cores\n\n"
              << picture_table(report["pictures"]) << std::flush;
  }
  if (!options.json_file.empty()) write_report(options.json_file, report);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::run_main([&] { return troupe::bench::run(argc, argv); });
}
