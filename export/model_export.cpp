#include "troupe/export/model_export.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/text.h"
#include "troupe/export/model_signature.h"
#include "troupe/export/onnx_export.h"
#include "troupe/export/torch_script.h"
#include "troupe/hooks/tensors/tensor_file.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_not_written(const fs::path& path, const std::error_code& reason) {
  throw EnvironmentError(text("cannot write '", path.string(), "': ", reason.message(), "."),
                         "make the directory writable and free space on its file system.");
}

void write_file(const fs::path& path, std::string_view content) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw_not_written(path, {errno != 0 ? errno : EIO, std::generic_category()});
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_not_written(path, error);
}

void put_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) throw_not_written(to, error);
}

/// Whether a relative path stays below the folder that it starts from, and names a file in it.
bool stays_inside(const std::string& path) {
  const fs::path parts(path);
  if (path.empty() || path.find('\0') != std::string::npos || parts.is_absolute()) return false;
  return std::none_of(parts.begin(), parts.end(), [](const fs::path& part) {
    return part.empty() || part == "." || part == "..";
  });
}

const char* file_name(ExportFormat format) {
  return format == ExportFormat::onnx ? "model.onnx" : "model.pt";
}

std::string listed(const std::vector<TensorSignature>& tensors,
                   const std::vector<std::string>& triton) {
  std::string list;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string shape = join(tensors[i].shape, ", ", [](std::int64_t size) {
      return size < 0 ? std::string("B") : text(size);
    });
    list += text("  ", tensors[i].name, "  ", type_name(tensors[i].dtype, tensors[i].name).numpy,
                 " [", shape, "]  in Triton: ", triton[i], "\n");
  }
  return list;
}

/// How programs open the TorchScript file.
std::string torch_script_use(bool single) {
  return text(
      "\nC++ (LibTorch):\n"
      "  torch::jit::Module model = torch::jit::load(\"model.pt\");\n"
      "  model.eval();\n"
      "  auto result = model.forward({inputs in the order above});  // ",
      single ? "toTensor()" : "toTuple()->elements()",
      "\n\nPython (PyTorch):\n"
      "  model = torch.jit.load(\"model.pt\").eval()\n"
      "  result = model(inputs in the order above)  # ",
      single ? "a tensor" : "a tuple of tensors");
}

/// How programs open the ONNX file.
std::string onnx_use() {
  return "\nPython (onnxruntime):\n"
         "  session = onnxruntime.InferenceSession(\"model.onnx\")\n"
         "  outputs = session.run(None, {name: array for every input})\n"
         "\nJavaScript (onnxruntime-node, onnxruntime-web):\n"
         "  const session = await ort.InferenceSession.create('model.onnx')\n"
         "  const outputs = await session.run({name: tensor for every input})";
}

std::string readme(const ModelExportOptions& options, const ModelSignature& signature) {
  const std::string file = file_name(options.format);
  const auto list = [&](const std::vector<TensorSignature>& tensors, const char* fallback) {
    return listed(tensors, triton_names(tensors, fallback, options.format));
  };
  return text(
      "A model exported by Troupe at step ", options.global_step, ".\n\nInputs, B examples each:\n",
      list(signature.inputs, "INPUT"), "Outputs:\n", list(signature.outputs, "OUTPUT"),
      options.format == ExportFormat::onnx ? onnx_use()
                                           : torch_script_use(signature.outputs.size() == 1),
      "\n\nTriton Inference Server: the folder is a model, to be named as in config.pbtxt.\n"
      "  cp -r <this folder> <model repository>/",
      options.model_name,
      "\n\nmodel.safetensors has the weights alone, for programs that build the model "
      "themselves.\nsignature.json says the above to programs; 1/",
      file, " is ", file, ".\n");
}

std::vector<DynamicLength> lengths_of(const ModelExportOptions& options) {
  std::vector<DynamicLength> lengths;
  for (const std::string& length : options.lengths) lengths.push_back(parse_dynamic_length(length));
  return lengths;
}

/// `path`: "" writes nothing.
ModelSignature write_format(const Hooks& hooks, Replica& replica,
                            const std::vector<NamedTensor>& examples,
                            const ModelExportOptions& options, const std::string& path) {
  if (options.format == ExportFormat::onnx) {
    return write_onnx(hooks, replica, examples, lengths_of(options), options.global_step, path);
  }
  return write_torch_script(hooks, replica, examples, path);
}

}  // namespace

void validate(const ModelExportOptions& options) {
  const std::string& name = options.model_name;
  if (name.empty() || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), is_name_character)) {
    throw ConfigError(text("the exported model's name is \"", name, "\"."),
                      "use letters, digits, '_', '-' and '.': it names a folder.");
  }
  (void)lengths_of(options);
  std::set<std::string> places;
  for (const auto& [place, source] : options.assets) {
    if (!stays_inside(place) || !places.insert(place).second) {
      throw ConfigError(
          text("the asset \"", place, "\" leaves its folder, or another one has its place."),
          "use a relative path without . and .., another one for each asset.");
    }
    std::error_code error;
    if (!fs::is_regular_file(source, error)) {
      throw EnvironmentError(text("the asset '", source, "' is not there, or no file."),
                             "name a file that every machine which exports can read.");
    }
  }
}

void write_model(const Hooks& hooks, Replica& replica, const std::vector<NamedTensor>& examples,
                 const ModelExportOptions& options, const std::string& directory) {
  validate(options);
  const fs::path root(directory);
  const std::string file = file_name(options.format);
  const ModelSignature signature =
      write_format(hooks, replica, examples, options, (root / file).string());
  make_directories(root / "1");
  // One file under two names; two files where the file system has no hard links.
  std::error_code error;
  fs::create_hard_link(root / file, root / "1" / file, error);
  if (error) put_copy(root / file, root / "1" / file);

  const std::vector<std::byte> weights = write_tensors(detail::state_of(replica));
  write_file(root / "model.safetensors",
             std::string_view(reinterpret_cast<const char*>(weights.data()), weights.size()));

  write_file(root / "signature.json",
             signature_json(signature, options.global_step, options.format));
  write_file(root / "config.pbtxt", triton_config(options.model_name, signature, options.format));
  write_file(root / "README.txt", readme(options, signature));
  for (const auto& [place, source] : options.assets) {
    const fs::path to = root / "assets.extra" / place;
    make_directories(to.parent_path());
    put_copy(source, to);
  }
}

void check_model(const Hooks& hooks, Replica& replica, const std::vector<NamedTensor>& examples,
                 const ModelExportOptions& options) {
  static_cast<void>(write_format(hooks, replica, examples, options, ""));
}

}  // namespace troupe
