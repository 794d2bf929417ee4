// The files of an exported model; docs/export_format.md describes them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/options/train_options.h"
#include "troupe/hooks/hooks.h"

namespace troupe {

/// Settings of an export, besides the model.
struct ModelExportOptions {
  std::string model_name = "model";  // Triton's name of the model
  std::int64_t global_step = 0;
  ExportFormat format = ExportFormat::torch_script;
  /// Of ONNX: dimensions that may have another size at every call, beside the batch, each as
  /// INPUT:DIMENSION=NAME: "tokens:1=length". Those of one name have one size.
  std::vector<std::string> lengths = {};
  /// Where in assets.extra/ ("vocabulary/words.txt"), and the file that is copied there.
  std::vector<std::pair<std::string, std::string>> assets;
};

/// Throws: ConfigError if the model's name is not a plain file name, a length is none, or an
/// asset's place occurs twice or is outside its folder; EnvironmentError if a file to copy does not
/// exist.
void validate(const ModelExportOptions& options);

/// Fills `directory`, which must exist and be empty:
///   model.pt            TorchScript, opened by LibTorch and Python without the user's code; or
///   model.onnx          ONNX, for onnxruntime and others
///   model.safetensors   parameters and buffers by name
///   signature.json      names, dtypes and shapes of inputs and outputs, default output, step
///   config.pbtxt        for Triton; README.txt says how the folder becomes a model repository
///   1/model.pt or .onnx the same file by a hard link, as Triton lays versions out
///   assets.extra/...    the given files
/// `examples`: the features of one batch, by name, [B, ...] with B >= 2.
/// Throws: ConfigError and EnvironmentError as write_torch_script or write_onnx, and validate.
void write_model(const Hooks& hooks, Replica& replica, const std::vector<NamedTensor>& examples,
                 const ModelExportOptions& options, const std::string& directory);

/// Does what write_model does with the model itself, without writing a file, so that a model that
/// cannot be exported is known before it is trained. Throws: ConfigError as write_model.
void check_model(const Hooks& hooks, Replica& replica, const std::vector<NamedTensor>& examples,
                 const ModelExportOptions& options);

}  // namespace troupe
