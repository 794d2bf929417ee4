// examples/transformer/transformer_hooks.h -- template/my_hooks.h, filled in for a model of text:
// lines of different lengths, in batches of similar ones, padded; a mean over characters.
// Shapes: B lines in this replica's batch, T characters in the longest, C characters there are.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/transformer/text_lines.h"
#include "examples/transformer/transformer.h"
#include "troupe.h"

struct TransformerOptions {
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t blocks = 2;
  std::int64_t lines = 20'000;
  bool bucketed = true;

  std::vector<troupe::Flag> flags() {
    return {
        troupe::flag("learning-rate"),
        troupe::flag("weight-decay"),
        troupe::flag("data-dir"),
        troupe::flag("train-examples"),
        troupe::flag("width", &width, "numbers for a character, a multiple of heads", {1, 4096}),
        troupe::flag("heads", &heads, "heads of an attention", {1, 256}),
        troupe::flag("blocks", &blocks, "blocks of attention", {1, 256}),
        troupe::flag("lines", &lines, "generated for training", {1, 100'000'000}),
        troupe::flag("bucketed", &bucketed, "batches of any lengths, not of similar ones")};
  }
};

class TransformerHooks final : public troupe::Hooks {
 public:
  /// The inputs, by the names that exported models know; the characters that follow are the labels.
  inline static const std::vector<std::string> kFeatures = {"characters", "mask"};

  TransformerHooks(const troupe::Options& options, const TransformerOptions& mine)
      : options_(options), mine_(mine) {
    if (mine.width % mine.heads == 0) return;
    throw troupe::ConfigError("--width is no multiple of --heads.", "change either.");
  }

  troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const torch::Tensor& logits, const torch::Tensor& next) {
               const auto own = logits.log_softmax(-1).gather(-1, next.unsqueeze(-1));
               return -own.squeeze(-1);  // [B, T]
             }}};
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("accuracy");  // of characters
  }

  troupe::Trainable create_model() const override {
    auto model = std::make_shared<Transformer>(kCharacters, text_lines::kLongest, mine_.width,
                                               mine_.heads, mine_.blocks);
    auto adam = std::make_shared<torch::optim::AdamW>(
        model->parameters(), torch::optim::AdamWOptions(options_.train.learning_rate)
                                 .weight_decay(options_.train.weight_decay));
    return {model, adam};
  }

  troupe::Splits create_datasets() const override {
    const std::filesystem::path folder = options_.data.data_dir;
    const bool generated = folder.empty();
    auto train = generated ? text_lines::generate(mine_.lines, /*seed=*/1)
                           : text_lines::read(folder / "train.txt");
    const auto wanted = static_cast<std::size_t>(options_.data.train_examples);  // 0: all
    if (wanted > 0 && wanted < train.size()) train.resize(wanted);
    std::vector<std::int64_t> lengths;
    for (const std::string& line : train) lengths.push_back(static_cast<std::int64_t>(line.size()));
    troupe::Splits splits;
    splits.train = dataset(std::move(train));
    splits.validation = dataset(generated ? text_lines::generate(500, /*seed=*/2)
                                          : text_lines::read(folder / "validation.txt"));
    if (mine_.bucketed) splits.sampler = troupe::bucketed(std::move(lengths));
    return splits;
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }

  /// What follows each line, which has no last character of its own: log probabilities [B, C].
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    const auto& mask = batch.fields[1];
    const auto logits = replica.model<Transformer>().forward(batch.fields[0], mask);
    const auto last = (mask.sum(1) - 1).clamp_min(0).view({-1, 1, 1});
    const auto there = logits.gather(1, last.expand({-1, 1, logits.size(2)})).squeeze(1);
    return {{"next", there.log_softmax(-1)}};
  }

 private:
  static constexpr std::int64_t kCharacters = 128;  // ASCII; 0 begins a line, and pads

  static torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [characters, mask, next] = batch.unpack<3>();
    const auto logits = replica.model<Transformer>().forward(characters, mask);
    replica.metric("accuracy").update((logits.argmax(-1) == next).to(torch::kFloat32), {}, mask);
    return replica.global_mean(replica.loss("cross_entropy")(logits, next), mask);
  }

  /// Fields: what was read before each character of a line, int64 [B, T], 0 at its beginning; the
  /// mask, bool [B, T]; the characters, int64 [B, T].
  static std::shared_ptr<const troupe::Dataset> dataset(std::vector<std::string> lines) {
    const auto count = static_cast<std::int64_t>(lines.size());
    const auto read = [lines = std::move(lines)](std::int64_t i, troupe::ExampleRandom&) {
      const std::string& line = lines[static_cast<std::size_t>(i)];
      const auto length = static_cast<std::int64_t>(line.size());
      auto characters = torch::zeros({length + 1}, torch::kInt64);
      for (std::int64_t at = 0; at < length; ++at) {
        characters.data_ptr<std::int64_t>()[at + 1] = line[static_cast<std::size_t>(at)];
      }
      return troupe::Example{characters.narrow(0, 0, length), characters.narrow(0, 1, length)};
    };
    const auto collate = [padded = troupe::padded({0, 1})](const auto& examples) {
      auto fields = padded(examples);
      return std::vector<torch::Tensor>{fields[0], fields[2], fields[1]};
    };
    return std::make_shared<troupe::ExampleDataset>(count, read, collate);
  }

  const troupe::Options options_;
  const TransformerOptions mine_;
};
