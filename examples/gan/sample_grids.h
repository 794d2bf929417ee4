// examples/gan/sample_grids.h -- 64 pictures as one PNG file at every evaluation, always drawn from
// the same noise, so that the files of different steps show the same digits getting better.
#pragma once

#include <filesystem>
#include <string>

#include "examples/gan/gan_hooks.h"
#include "examples/gan/png.h"
#include "troupe.h"

/// As an action it sees the end of every epoch that is validated (--mode train); as a listener it
/// sees every checkpoint, which is what train_and_evaluate evaluates. On the chief only.
class SampleGrids final : public troupe::PeriodicAction, public troupe::SavingListener {
 public:
  SampleGrids(std::filesystem::path directory, std::int64_t noise_size)
      : directory_(std::move(directory)),
        noise_(fixed_noise(kSide * kSide, noise_size, /*seed=*/64)) {}

  [[nodiscard]] bool chief_only() const override { return true; }
  void ready(troupe::RunControl& run) override {
    replica_ = &run.replica();
    step_ = run.step();
  }
  void after_step(const troupe::StepReport& report, troupe::RunControl&) override {
    step_ = report.step;
  }
  void after_epoch(std::int64_t, const troupe::Report&, const troupe::Report* validation) override {
    if (validation != nullptr) draw(step_);
  }
  bool after_save(const troupe::SavedCheckpoint& saved) override {
    draw(saved.step);
    return false;
  }

 private:
  static constexpr std::int64_t kSide = 8;    // pictures in a row and in a column
  static constexpr std::int64_t kMargin = 2;  // pixels around each

  void draw(std::int64_t step) {
    if (replica_ == nullptr) return;  // the checkpoint that training starts from
    const torch::NoGradGuard no_gradients;
    auto& generator = replica_->model<Generator>("generator");
    generator.eval();  // each step sets the mode as it needs it
    auto pictures = generator.forward(noise_.to(replica_->place().device)).to(torch::kCPU);
    pictures = torch::constant_pad_nd(pictures, {kMargin, kMargin, kMargin, kMargin}, -0.5);
    const std::int64_t side = pictures.size(3);  // with margins
    const auto grid = pictures.view({kSide, kSide, side, side}).permute({0, 2, 1, 3});
    const auto bytes = ((grid + 1) * 127.5).round().clamp(0, 255).to(torch::kUInt8).contiguous();
    const auto* begin = bytes.data_ptr<std::uint8_t>();
    pictures::write_png(directory_ / troupe::text("step-", step, ".png"),
                        {kSide * side, kSide * side, {begin, begin + bytes.numel()}});
  }

  const std::filesystem::path directory_;
  const torch::Tensor noise_;  // [64, Z]
  troupe::Replica* replica_ = nullptr;
  std::int64_t step_ = 0;
};

/// Adds the grids to what train() is given. Adds nothing where there is no directory to write to.
inline void add_sample_grids(troupe::Callbacks& callbacks, const GanOptions& mine,
                             const std::string& model_dir, troupe::Mode mode) {
  if (mine.samples_dir.empty() && model_dir.empty()) {
    troupe::log_info("no pictures are written: there is neither --samples-dir nor --model-dir");
    return;
  }
  const auto grids = std::make_shared<SampleGrids>(
      mine.samples_dir.empty() ? std::filesystem::path(model_dir) / "samples"
                               : std::filesystem::path(mine.samples_dir),
      mine.noise_size);
  callbacks.actions.push_back(grids);
  if (mode == troupe::Mode::train_and_evaluate) callbacks.listeners.push_back(grids);
}
