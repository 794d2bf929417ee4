// A training on a file of records that is never in memory as a whole: a stream of blocks, whose
// examples are changed at random. Its flags are those of any program, and those below.
// TEST_DEADLY_BLOCK=17 has whoever reads that block killed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/trainings.h"
#include "troupe.h"
#include "troupe/core/unique_fd.h"

namespace {

struct StreamFlags {
  std::string records;
  std::int64_t values = 64;
  std::int64_t block = 50;
  std::int64_t window = 4;
  bool counted = true;

  std::vector<troupe::Flag> flags() {
    const std::pair<std::int64_t, std::int64_t> positive{1, 1 << 20};
    return {troupe::flag("learning-rate"),
            troupe::flag("records", &records, "file of records"),
            troupe::flag("values", &values, "float32 numbers of a record", positive),
            troupe::flag("block", &block, "records of a block", positive),
            troupe::flag("window", &window, "blocks in memory", positive),
            troupe::flag("counted", &counted, "the stream does not know its blocks")};
  }
};

class StreamHooks final : public troupe::Hooks {
 public:
  StreamHooks(const troupe::Options& options, const StreamFlags& mine)
      : rate_(options.train.learning_rate), mine_(mine) {}

  [[nodiscard]] troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const at::Tensor& y, const at::Tensor& target) {
               return (y - target).pow(2).squeeze(1);
             }}};
  }
  [[nodiscard]] troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("mean_target");
  }
  [[nodiscard]] troupe::Trainable create_model() const override {
    torch::nn::Linear net(mine_.values - 1, 1);
    return {net.ptr(), std::make_shared<torch::optim::Adam>(net->parameters(),
                                                            torch::optim::AdamOptions(rate_))};
  }
  [[nodiscard]] troupe::Splits create_datasets() const override {
    return {stream(INT64_MAX), stream(3), nullptr};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }

 private:
  static at::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto& record = batch.fields[0];
    const auto target = record.narrow(1, 0, 1);
    replica.metric("mean_target").update(target);
    auto& net = replica.model<torch::nn::LinearImpl>();
    const auto y = net.forward(record.narrow(1, 1, record.size(1) - 1));
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }

  /// The first `blocks` blocks of the file.
  [[nodiscard]] std::shared_ptr<const troupe::Dataset> stream(std::int64_t blocks) const {
    const auto file =
        std::make_shared<troupe::UniqueFd>(::open(mine_.records.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status = {};
    if (file->get() < 0 || ::fstat(file->get(), &status) != 0) {
      throw troupe::DataError("'" + mine_.records + "' cannot be read.", "give --records.");
    }
    const std::int64_t bytes = mine_.block * mine_.values * 4;
    blocks = std::min(blocks, (status.st_size + bytes - 1) / bytes);
    const char* const deadly = std::getenv("TEST_DEADLY_BLOCK");
    const std::int64_t last = deadly == nullptr || blocks == 3 ? -1 : std::atoi(deadly);
    troupe::StreamOptions options;
    options.window = mine_.window;
    if (mine_.counted) options.blocks = blocks;
    options.transform = [](troupe::Example example, troupe::ExampleRandom& random) {
      return troupe::Example{example[0] + 0.01 * random.normal()};
    };
    const auto read = [file, bytes, blocks, last, values = mine_.values](
                          std::int64_t number) -> std::optional<std::vector<troupe::Example>> {
      if (number >= blocks) return std::nullopt;
      if (number == last) std::raise(SIGKILL);
      const at::Tensor rows = torch::empty({bytes / (4 * values), values});
      const ssize_t got =
          ::pread(file->get(), rows.data_ptr(), static_cast<std::size_t>(bytes), number * bytes);
      std::vector<troupe::Example> block;
      for (std::int64_t i = 0; i < got / (4 * values); ++i) block.push_back({rows[i]});
      return block;
    };
    return std::make_shared<troupe::StreamDataset>(read, options);
  }

  double rate_;
  StreamFlags mine_;
};

}  // namespace

int stream_net(int argc, char** argv) {
  return troupe::run_main([&] {
    StreamFlags mine;
    const troupe::Options options =
        troupe::parse_options(argc, argv, mine.flags(), {"stream_net", "Reads a stream.", {}});
    const StreamHooks hooks(options, mine);
    troupe::run_job(hooks, options);
  });
}
