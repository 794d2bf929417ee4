// A checkpoint's files: tensors, manifest and index.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "troupe/core/failure.h"
#include "troupe/core/file_system.h"
#include "troupe/core/safetensors.h"
#include "troupe/core/sha256.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace troupe::fuzz::checkpoint_target {
namespace {

enum Kind : unsigned char { tensors, manifest, repaired_manifest, index };
constexpr unsigned kKinds = index + 1;

std::string written(const SafetensorsContent& content) {
  std::string file;
  write_safetensors(content, [&](Span<const std::byte> bytes) { file += text_of(bytes); });
  return file;
}

bool same(const SafetensorsContent& a, const SafetensorsContent& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const TensorView& one : a.tensors) {
    bool found = false;
    for (const TensorView& other : b.tensors) {
      found = found || (one.name == other.name && one.dtype == other.dtype &&
                        one.shape == other.shape && text_of(one.bytes) == text_of(other.bytes));
    }
    if (!found) return false;
  }
  return true;
}

bool run_tensors(std::string_view input) {
  const std::vector<std::byte> file(bytes_of(input).begin(), bytes_of(input).end());
  SafetensorsContent content;
  const bool accepted = accepts<CheckpointError>(
      [&] { content = read_safetensors(Span<const std::byte>(file), "fuzz"); });
  if (!accepted) return false;
  std::size_t bytes = 0;
  for (const TensorView& tensor : content.tensors) {
    bytes += tensor.bytes.size();
    FUZZ_REQUIRE(tensor.bytes.begin() >= file.data() &&
                 tensor.bytes.end() <= file.data() + file.size());
  }
  const std::uint64_t start = safetensors_start_bytes(bytes_of(input).subspan(0, 8), "fuzz");
  FUZZ_REQUIRE(start + bytes == file.size());
  check_safetensors_size(bytes_of(input).subspan(0, start), file.size(), "fuzz");
  const std::string again = written(content);
  const SafetensorsContent read = read_safetensors(bytes_of(again), "fuzz");
  FUZZ_REQUIRE(same(content, read));
  FUZZ_REQUIRE(written(read) == again);
  return true;
}

bool run_manifest(std::string_view input) {
  CheckpointInfo info;
  if (!accepts<CheckpointError>([&] { info = read_manifest(bytes_of(input), "fuzz"); }))
    return false;
  for (const CheckpointFileInfo& file : info.files) {
    FUZZ_REQUIRE(is_file_name(file.name) && file.name.find('/') == std::string::npos);
  }
  const std::string again = write_manifest(info);
  const CheckpointInfo read = read_manifest(bytes_of(again), "fuzz");
  FUZZ_REQUIRE(read.step == info.step && read.written_at == info.written_at);
  FUZZ_REQUIRE(same_content(read, info));
  FUZZ_REQUIRE(write_manifest(read) == again);
  return true;
}

/// With the digest that belongs to it, so that the rest is read.
bool run_repaired(std::string_view input) {
  auto document = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return false;
  document.erase("sha256");
  document["sha256"] = sha256_hex(document.dump());
  return run_manifest(document.dump());
}

const testing::TempDir& folder() {
  static const testing::TempDir made;
  return made;
}

bool run_index(std::string_view input) {
  static PosixFileSystem files(folder().path().string());
  static const std::string path = folder() / kIndexName;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  FUZZ_REQUIRE(file != nullptr && std::fwrite(input.data(), 1, input.size(), file) == input.size());
  FUZZ_REQUIRE(std::fclose(file) == 0);
  std::optional<CheckpointIndex> read;
  if (!accepts<CheckpointError>([&] { read = read_index(files); })) return false;
  FUZZ_REQUIRE(read && read->latest >= 0);
  for (const std::int64_t step : read->retained) FUZZ_REQUIRE(step >= 0);
  write_index(files, *read);
  const auto again = read_index(files);
  FUZZ_REQUIRE(again && again->latest == read->latest && again->retained == read->retained &&
               again->keep_after == read->keep_after);
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::vector<std::byte> bytes(64, std::byte{1});
  const Span<const std::byte> all(bytes);
  SafetensorsContent content;
  content.tensors = {{"conv1.weight", TensorType::f32, {2, 3}, all.subspan(0, 24)},
                     {"step", TensorType::i64, {}, all.subspan(0, 8)},
                     {"empty", TensorType::bf16, {0, 7}, {}},
                     {"mask", TensorType::boolean, {3}, all.subspan(0, 3)}};
  CheckpointInfo info{12, 1'700'000'000, {{"model.safetensors", 99, std::string(64, 'a')}}, {}};
  const std::string plain = written(content);
  content.metadata = {{"format", "pt"}, {"\xC3\xA4", "\n"}};
  info.extras = {{"epoch", 3}, {"loss", 0.25}, {"tiny", 5e-324}, {"list", {1, nullptr, true, "x"}}};
  return {seed(tensors, plain),
          seed(tensors, written(content)),
          seed(tensors, written({})),
          seed(manifest, write_manifest(info)),
          seed(repaired_manifest, write_manifest(info)),
          seed(index, R"({"format": "troupe-checkpoint-index", "version": 1,
                          "latest": "model.ckpt-7", "retained": ["model.ckpt-5", "model.ckpt-7"],
                          "keep_after": 1700000000})")};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case tensors:
      return run_tensors(input);
    case manifest:
      return run_manifest(input);
    case repaired_manifest:
      return run_repaired(input);
    default:
      return run_index(input);
  }
}

const Registration registered({"checkpoint", seeds, run});

}  // namespace troupe::fuzz::checkpoint_target
