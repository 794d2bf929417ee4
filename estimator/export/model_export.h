// The files of an exported model; docs/export_format.md describes them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hooks/hooks.h"

namespace troupe {

/// What an export is told beside the model.
struct ModelExportOptions {
  std::string model_name = "model";  // Triton's name of the model
  std::int64_t global_step = 0;
  /// Where in assets.extra/ ("vocabulary/words.txt"), and the file that is copied there.
  std::vector<std::pair<std::string, std::string>> assets;
};

/// Throws: ConfigError where the model's name is no plain file name, or an asset's place is there
/// twice or leaves its folder; EnvironmentError where a file to copy is not there.
void validate(const ModelExportOptions& options);

/// Fills `directory`, which exists and is empty:
///   model.pt            TorchScript, opened by LibTorch and Python without the user's code
///   model.safetensors   parameters and buffers by name
///   signature.json      names, dtypes and shapes of inputs and outputs, default output, step
///   config.pbtxt        for Triton; README.txt says how the folder becomes a model repository
///   1/model.pt          the same file by a hard link, as Triton lays versions out
///   assets.extra/...    the given files
/// `examples`: the features of one batch, by name, [B, ...] with B >= 2.
/// Throws: ConfigError and EnvironmentError as write_torch_script and validate.
void write_model(const Hooks& hooks, Replica& replica, const std::vector<NamedTensor>& examples,
                 const ModelExportOptions& options, const std::string& directory);

}  // namespace troupe
