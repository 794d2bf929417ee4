#include "troupe/train/checkpoint/model_weights.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "troupe/core/failure.h"
#include "troupe/core/file_system.h"
#include "troupe/core/log.h"
#include "troupe/hooks/replica.h"
#include "troupe/hooks/tensors/tensor_file.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/checkpoint/checkpoint_reader.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe {
namespace {

using detail::does_not_fit;

/// The tensors of one of a checkpoint's files; unset where it has none of that name.
std::optional<std::vector<NamedTensor>> read_file(const std::string& checkpoint,
                                                  const std::string& name) {
  const CheckpointPath path = split_checkpoint_path(checkpoint);
  PosixFileSystem files(path.model_dir);
  CheckpointReader reader(files);
  const CheckpointInfo info = reader.open(path.step);
  const auto file = std::find_if(info.files.begin(), info.files.end(),
                                 [&](const auto& each) { return each.name == name; });
  if (file == info.files.end()) return std::nullopt;
  return read_tensors(reader, info, *file, checkpoint + "/" + name);
}

/// The tensors of `all` that have the names of `wanted`.
std::vector<NamedTensor> named_as(const std::vector<NamedTensor>& wanted,
                                  const std::vector<NamedTensor>& all) {
  std::vector<NamedTensor> chosen;
  for (const auto& [name, value] : wanted) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&, &key = name](const NamedTensor& t) { return t.first == key; });
    if (found == all.end()) throw does_not_fit("the model has no \"" + name + "\" to average");
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace

std::vector<NamedTensor> read_tensors(CheckpointReader& reader, const CheckpointInfo& info,
                                      const CheckpointFileInfo& file, const std::string& shown) {
  const auto first = reader.read_start(info, file.name, kSafetensorsLength);
  const std::uint64_t start_bytes = safetensors_start_bytes(first, shown);
  check_safetensors_size(reader.read_start(info, file.name, start_bytes), file.bytes, shown);
  return read_tensors(reader.read(info, file.name), shown);
}

CheckpointPath split_checkpoint_path(const std::string& path) {
  const std::string trimmed = path.substr(0, path.find_last_not_of('/') + 1);
  const auto slash = trimmed.rfind('/');
  const std::string name = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  const auto step = step_of(name);
  if (!step) {
    throw ConfigError("\"" + path + "\" is not the path of a checkpoint.",
                      "name a directory <model_dir>/model.ckpt-<step>.");
  }
  const std::string directory = slash == std::string::npos ? "." : trimmed.substr(0, slash);
  return {directory.empty() ? "/" : directory, *step};
}

std::string named_checkpoint(const std::string& path) {
  const std::string trimmed = path.substr(0, path.find_last_not_of('/') + 1);
  const auto slash = trimmed.rfind('/');
  if (trimmed.substr(slash == std::string::npos ? 0 : slash + 1) != "best") return path;
  const std::string model_dir = slash == std::string::npos ? "." : trimmed.substr(0, slash);
  PosixFileSystem files(model_dir);
  const auto index = files.status("") ? read_index(files) : std::nullopt;
  if (!index || !index->best) {
    throw ConfigError("no checkpoint in " + model_dir + " is known to be the best.",
                      "train with --best METRIC, or name another checkpoint.");
  }
  return model_dir + "/" + checkpoint_name(index->best->step);
}

std::optional<std::string> latest_checkpoint(const std::string& model_dir) {
  PosixFileSystem files(model_dir);
  if (!files.status("")) return std::nullopt;
  CheckpointReader reader(files);
  try {
    const auto index = read_index(files);
    if (!index) return std::nullopt;
    return model_dir + "/" + checkpoint_name(reader.open(index->latest).step);
  } catch (const CheckpointError& error) {
    log_error("the latest checkpoint of ", model_dir, " is passed over: ", error.what());
  }
  const auto others = reader.all();
  if (others.empty()) return std::nullopt;
  return model_dir + "/" + checkpoint_name(others.back().step);
}

std::optional<std::string> newest_good_checkpoint(const std::string& model_dir) {
  PosixFileSystem files(model_dir);
  if (!files.status("")) return std::nullopt;
  const auto newest = CheckpointReader(files).latest();
  if (!newest) return std::nullopt;
  return model_dir + "/" + checkpoint_name(newest->step);
}

std::vector<NamedTensor> read_weights(const std::string& checkpoint) {
  if (const auto model = read_file(checkpoint, detail::kModelFile)) return *model;
  throw CheckpointError(text("'", checkpoint, "' has no ", detail::kModelFile, "."),
                        "use a checkpoint of a training run.");
}

std::string read_data_digest(const std::string& checkpoint) {
  const CheckpointPath path = split_checkpoint_path(checkpoint);
  PosixFileSystem files(path.model_dir);
  const CheckpointInfo info = CheckpointReader(files).open(path.step);
  const auto data = info.extras.find("data");
  if (data == info.extras.end() || !data->is_object()) return "";
  const auto digest = data->find("digest");
  return digest == data->end() || !digest->is_string() ? "" : digest->get<std::string>();
}

void copy_weights(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from,
                  const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : into) {
    const at::Tensor& value = detail::find(from, prefix + name);
    if (value.sizes() != tensor.sizes() || value.scalar_type() != tensor.scalar_type()) {
      throw does_not_fit(text("\"", name, "\" is ", value.scalar_type(), " ", value.sizes(),
                              " in it, the model's is ", tensor.scalar_type(), " ",
                              tensor.sizes()));
    }
    at::Tensor target = tensor;
    target.copy_(value);
  }
}

void copy_model(Replica& replica, const std::vector<NamedTensor>& saved) {
  const std::vector<NamedTensor> present = detail::state_of(replica);
  if (saved.size() != present.size()) {
    throw does_not_fit(text("it has ", saved.size(), " tensors, the model ", present.size()));
  }
  copy_weights(present, saved);
}

void load_weights(Replica& replica, const std::string& checkpoint) {
  const auto averages = read_file(checkpoint, detail::kAveragesFile);
  copy_model(replica, read_weights(checkpoint));
  if (!averages) return;
  copy_weights(named_as(*averages, replica.parameters()), *averages);
  log_info("the averaged weights of ", checkpoint, " are used");
}

}  // namespace troupe
