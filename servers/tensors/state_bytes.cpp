#include "servers/tensors/state_bytes.h"

#include <torch/types.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

using nlohmann::ordered_json;

constexpr char kMagic[] = "troupePS";
constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kHeaderBytes = kMagicBytes + sizeof(std::uint64_t);

constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kTypes = {
    {{"float32", at::kFloat},
     {"float64", at::kDouble},
     {"float16", at::kHalf},
     {"bfloat16", at::kBFloat16},
     {"int64", at::kLong},
     {"int32", at::kInt},
     {"int16", at::kShort},
     {"int8", at::kChar},
     {"uint8", at::kByte},
     {"bool", at::kBool}}};

ConfigError malformed(const std::string& what) {
  return ConfigError("a parameter server's state cannot be read: " + what + ".",
                     "run the same program on every worker and server.");
}

const char* name_of(at::ScalarType type, const std::string& tensor) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  throw ConfigError(text("\"", tensor, "\" is ", type, ", which parameter servers cannot hold."),
                    "use floating point or whole numbers.");
}

at::ScalarType type_of(const std::string& wanted) {
  for (const auto& [name, type] : kTypes) {
    if (wanted == name) return type;
  }
  throw malformed("it has a tensor of type " + wanted);
}

/// Takes the next tensor off the front of `bytes`.
at::Tensor read_tensor(const ordered_json& entry, Span<const std::byte>& bytes) {
  const auto type = type_of(entry.at("dtype").get<std::string>());
  const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
  const std::size_t fit = bytes.size() / c10::elementSize(type);
  std::size_t elements = 1;
  for (const std::int64_t length : shape) {
    if (length < 0) throw malformed("a tensor has a negative size");
    const auto factor = static_cast<std::size_t>(length);
    if (factor != 0 && elements > fit / factor) throw malformed("it is cut short");
    elements *= factor;
  }
  if (elements > fit) throw malformed("it is cut short");
  at::Tensor tensor = torch::empty(shape, torch::TensorOptions().dtype(type));
  const std::size_t size = elements * c10::elementSize(type);
  if (size > 0) std::memcpy(tensor.data_ptr(), bytes.data(), size);
  bytes = bytes.subspan(size, bytes.size() - size);
  return tensor;
}

}  // namespace

std::vector<std::byte> write_state(const ShardState& state) {
  ordered_json entries = ordered_json::array();
  std::vector<at::Tensor> hosts;
  std::size_t total = kHeaderBytes;
  for (const auto& [name, tensor] : state.tensors) {
    entries.push_back({{"name", name},
                       {"dtype", name_of(tensor.scalar_type(), name)},
                       {"shape", tensor.sizes().vec()}});
    hosts.push_back(tensor.detach().to(torch::kCPU).contiguous());
    total += hosts.back().nbytes();
  }
  const std::string json =
      ordered_json{{"optimizers", state.optimizers}, {"tensors", entries}}.dump();
  const std::uint64_t length = json.size();
  std::vector<std::byte> bytes;
  bytes.reserve(total + json.size());
  const auto append = [&](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
  };
  append(kMagic, kMagicBytes);
  append(&length, sizeof length);
  append(json.data(), json.size());
  for (const at::Tensor& host : hosts) append(host.data_ptr(), host.nbytes());
  return bytes;
}

ShardState read_state(Span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, kMagicBytes) != 0) {
    throw malformed("it does not begin as one");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data() + kMagicBytes, sizeof length);
  auto rest = bytes.subspan(kHeaderBytes, bytes.size() - kHeaderBytes);
  if (length > rest.size()) throw malformed("it is cut short");
  ShardState state;
  try {
    const auto* text = reinterpret_cast<const char*>(rest.data());
    const ordered_json json = ordered_json::parse(text, text + length);
    rest = rest.subspan(length, rest.size() - length);
    state.optimizers = json.at("optimizers");
    for (const ordered_json& entry : json.at("tensors")) {
      auto name = entry.at("name").get<std::string>();
      state.tensors.emplace_back(std::move(name), read_tensor(entry, rest));
    }
  } catch (const ordered_json::exception& error) {
    throw malformed(error.what());
  }
  if (!rest.empty()) throw malformed("there is more of it than it says");
  return state;
}

}  // namespace troupe::detail
