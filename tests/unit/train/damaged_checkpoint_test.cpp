// Checkpoints whose digests are right and whose content is not: the one before is used, and the log
// names the file.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/sha256.h"
#include "troupe/hooks/tensors/tensor_file.h"

namespace damaged_checkpoint_test {

namespace {

using nlohmann::json;
using troupe::NamedTensor;
using troupe::testing::CapturedLog;
using troupe::testing::TempDir;
using troupe::testing::TinyHooks;
namespace fs = std::filesystem;

std::string train(const fs::path& model_dir) {
  auto options = troupe::testing::quiet_options(10, 4, model_dir);
  options.save_checkpoints_steps = 5;
  return train_alone(*troupe::make_one_device({}), TinyHooks(10), options).hash;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// Changes a manifest, whose own digest then is right.
void change_manifest(const fs::path& checkpoint, const std::function<void(json&)>& change) {
  json manifest = json::parse(content_of(checkpoint / "manifest.json"));
  change(manifest);
  manifest.erase("sha256");
  manifest["sha256"] = troupe::sha256_hex(manifest.dump());
  replace(checkpoint / "manifest.json", manifest.dump());
}

/// Puts `value` in the place of a tensor of a file, whose digest then is right.
void change_tensor(const fs::path& checkpoint, const std::string& file, const std::string& name,
                   const at::Tensor& value) {
  const std::string old = content_of(checkpoint / file);
  const auto bytes = troupe::as_bytes(troupe::Span<const char>(old.data(), old.size()));
  auto tensors = troupe::read_tensors({bytes.begin(), bytes.end()}, file);
  for (auto& [each, tensor] : tensors) {
    if (each == name) tensor = value;
  }
  const auto written = troupe::write_tensors(tensors);
  const std::string content(reinterpret_cast<const char*>(written.data()), written.size());
  replace(checkpoint / file, content);
  change_manifest(checkpoint, [&](json& manifest) {
    manifest["files"][file] = {{"bytes", content.size()}, {"sha256", troupe::sha256_hex(content)}};
  });
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("damaged checkpoint: states of other types or sizes lead to the one before") {
    struct Row {
      const char* tensor;
      at::Tensor value;
    };
    const Row rows[] = {
        {"random", torch::zeros({3}, torch::kLong)},
        {"random", torch::zeros({5056}, torch::kByte)},
        {"random", torch::zeros({16}, torch::kByte)},
        {"losses", torch::zeros({1}, torch::kLong)},
        {"losses", torch::zeros({2}, torch::kFloat64)},
        {"metrics", torch::zeros({2}, torch::kFloat32)},
        {"metrics", torch::zeros({1, 2}, torch::kFloat64)},
    };
    const TempDir good;
    const std::string expected = train(good.path());
    for (const Row& row : rows) {
      CAPTURE(row.tensor);
      CAPTURE(row.value.sizes());
      const TempDir dir;
      fs::copy(good.path(), dir.path(), fs::copy_options::recursive);
      change_tensor(dir / "model.ckpt-10", "worker-0.safetensors", row.tensor, row.value);
      const CapturedLog log;
      CHECK(train(dir.path()) == expected);
      CHECK(log.has("model.ckpt-10 is not used: 'worker-0.safetensors' "));
      CHECK(log.has("Using model.ckpt-5."));
    }
  }

  TEST_CASE("damaged checkpoint: a file larger than its header or memory leads to the one before") {
    const TempDir good;
    const std::string expected = train(good.path());
    const auto grow = [](const fs::path& checkpoint, std::uint64_t bytes) {
      fs::resize_file(checkpoint / "model.safetensors", bytes);
      change_manifest(checkpoint, [&](json& manifest) {
        manifest["files"]["model.safetensors"]["bytes"] = bytes;
      });
    };
    const TempDir dir;
    fs::copy(good.path(), dir.path(), fs::copy_options::recursive);
    grow(dir / "model.ckpt-10", std::uint64_t{3} << 40);
    {
      const CapturedLog log;
      CHECK(train(dir.path()) == expected);
      CHECK(log.has("model.ckpt-10 is not used: 'model.safetensors' is not a valid safetensors"));
    }
    // Nothing but zeros, as a file system may leave it after a loss of power.
    replace(dir / "model.ckpt-10/model.safetensors", "");
    grow(dir / "model.ckpt-10", std::uint64_t{3} << 40);
    const CapturedLog log;
    CHECK(train(dir.path()) == expected);
    CHECK(log.has("its header is no JSON object"));
  }
}

}  // namespace damaged_checkpoint_test
