#include "troupe/core/safetensors.h"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "troupe/core/failure.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr const char* kMetadataKey = "__metadata__";
constexpr std::uint64_t kAlignment = 8;

struct TypeRow {
  TensorType dtype;
  const char* name;
  std::size_t bytes;
};
// In the order of TensorType.
constexpr TypeRow kTypes[] = {
    {TensorType::f64, "F64", 8},      {TensorType::f32, "F32", 4}, {TensorType::f16, "F16", 2},
    {TensorType::bf16, "BF16", 2},    {TensorType::i64, "I64", 8}, {TensorType::i32, "I32", 4},
    {TensorType::i16, "I16", 2},      {TensorType::i8, "I8", 1},   {TensorType::u8, "U8", 1},
    {TensorType::boolean, "BOOL", 1},
};

const TypeRow& row_of(TensorType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

/// Bytes of an array; unset where 64 bits cannot count them or a dimension is negative.
std::optional<std::uint64_t> size_of(TensorType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = bytes_of(dtype);
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

[[noreturn]] void refuse_to_write(const std::string& what) {
  throw CheckpointError(text("cannot write a safetensors file: ", what, "."),
                        "give every tensor a name of its own and the bytes of its shape.");
}

std::vector<const TensorView*> in_file_order(const std::vector<TensorView>& tensors) {
  std::set<std::string> names;
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == kMetadataKey || !names.insert(tensor.name).second) {
      refuse_to_write(text("the name '", tensor.name, "' is taken"));
    }
    if (size_of(tensor.dtype, tensor.shape) != std::uint64_t{tensor.bytes.size()}) {
      refuse_to_write(
          text("'", tensor.name, "' has ", tensor.bytes.size(), " bytes, which is not its shape"));
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const std::size_t a_bytes = bytes_of(a->dtype);
    const std::size_t b_bytes = bytes_of(b->dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a->name < b->name;
  });
  return order;
}

/// Reads the parts of one file; the header's JSON is checked value by value.
class Reader {
 public:
  Reader(Span<const std::byte> file, const std::string& shown) : file_(file), shown_(shown) {}

  SafetensorsContent read() {
    const nlohmann::json header = read_header();
    SafetensorsContent content;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        content.metadata = read_metadata(value);
      } else {
        content.tensors.push_back(read_tensor(name, value));
      }
    }
    check_no_gaps(content.tensors);
    return content;
  }

  /// Header and length. The file may be its start alone.
  [[nodiscard]] std::uint64_t start_bytes() const {
    if (file_.size() < kSafetensorsLength) {
      refuse(text("it has ", file_.size(), " bytes, fewer than the 8 of its header's length"));
    }
    const std::uint64_t length =
        boost::endian::load_little_u64(reinterpret_cast<const unsigned char*>(file_.data()));
    if (length > kMaxSafetensorsHeader) {
      refuse(text("it announces a header of ", length, " bytes, at most ", kMaxSafetensorsHeader,
                  " are allowed"));
    }
    return kSafetensorsLength + length;
  }

  void check_size(std::uint64_t file_bytes) {
    std::uint64_t data = 0;
    const nlohmann::json header = read_header();
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey || !value.is_object()) continue;
      const auto offsets = value.find("data_offsets");
      if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2) continue;
      if ((*offsets)[1].is_number_unsigned()) {
        data = std::max(data, (*offsets)[1].get<std::uint64_t>());
      }
    }
    if (file_bytes - file_.size() != data) {
      refuse(text("it has ", file_bytes - file_.size(), " bytes of values, its header announces ",
                  data));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw CheckpointError(text("'", shown_, "' is not a valid safetensors file: ", what, "."),
                          "the file is damaged or of another format; use another checkpoint.");
  }

  nlohmann::json read_header() {
    const std::uint64_t length = start_bytes() - kSafetensorsLength;
    if (length > file_.size() - kSafetensorsLength) {
      refuse(text("it announces a header of ", length, " bytes and has ",
                  file_.size() - kSafetensorsLength, " after the length"));
    }
    const auto header = file_.subspan(kSafetensorsLength, length);
    data_ = file_.subspan(kSafetensorsLength + length, file_.size() - kSafetensorsLength - length);
    if (header.empty() || header[0] != std::byte{'{'}) refuse("its header is no JSON object");
    return parse_strict_json(header, shown_);
  }

  std::map<std::string, std::string> read_metadata(const nlohmann::json& value) const {
    std::map<std::string, std::string> metadata;
    if (!value.is_object()) refuse("__metadata__ is no object");
    for (const auto& [key, item] : value.items()) {
      if (!item.is_string()) refuse(text("__metadata__ '", key, "' is no text"));
      metadata[key] = item.get<std::string>();
    }
    return metadata;
  }

  std::uint64_t read_count(const nlohmann::json& value, const std::string& what) const {
    if (!value.is_number_unsigned()) refuse(text(what, " is no whole number from 0"));
    return value.get<std::uint64_t>();
  }

  TensorView read_tensor(const std::string& name, const nlohmann::json& value) {
    const std::string what = text("tensor '", name, "'");
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      refuse(text(what, " must have exactly dtype, shape and data_offsets"));
    }
    const nlohmann::json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) refuse(text(what, " must have two offsets"));
    const std::uint64_t begin = read_count(offsets[0], text(what, ": an offset"));
    const std::uint64_t end = read_count(offsets[1], text(what, ": an offset"));
    if (begin > end || end > data_.size()) {
      refuse(text(what, " is at bytes ", begin, " to ", end, " of ", data_.size()));
    }
    TensorView tensor;
    tensor.name = name;
    tensor.dtype = read_dtype(value["dtype"], what);
    if (!value["shape"].is_array()) refuse(text(what, ": its shape is no list"));
    for (const nlohmann::json& dim : value["shape"]) {
      const std::uint64_t count = read_count(dim, text(what, ": a dimension"));
      if (count > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
        refuse(text(what, " has a dimension of ", count));
      }
      tensor.shape.push_back(static_cast<std::int64_t>(count));
    }
    if (size_of(tensor.dtype, tensor.shape) != end - begin) {
      refuse(text(what, " has ", end - begin, " bytes, which is not its shape"));
    }
    tensor.bytes = data_.subspan(begin, end - begin);
    return tensor;
  }

  TensorType read_dtype(const nlohmann::json& value, const std::string& what) const {
    for (const TypeRow& row : kTypes) {
      if (value == row.name) return row.dtype;
    }
    refuse(text(what, " has an unknown type"));
  }

  /// Orders the tensors by their place and wants them to cover the data, each byte once.
  void check_no_gaps(std::vector<TensorView>& tensors) const {
    std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
      if (a.bytes.data() != b.bytes.data()) return a.bytes.data() < b.bytes.data();
      return a.bytes.size() < b.bytes.size();
    });
    const std::byte* expected = data_.begin();
    for (const TensorView& tensor : tensors) {
      if (tensor.bytes.begin() != expected) {
        refuse(text("the bytes of tensor '", tensor.name, "' ",
                    tensor.bytes.begin() < expected ? "overlap" : "leave a hole after",
                    " those before"));
      }
      expected = tensor.bytes.end();
    }
    if (expected != data_.end()) {
      refuse(text(data_.end() - expected, " bytes at its end belong to no tensor"));
    }
  }

  Span<const std::byte> file_;
  Span<const std::byte> data_;
  const std::string& shown_;
};

}  // namespace

const char* name_of(TensorType dtype) { return row_of(dtype).name; }
std::size_t bytes_of(TensorType dtype) { return row_of(dtype).bytes; }

void write_safetensors(const SafetensorsContent& content, const ByteSink& sink) {
  const std::vector<const TensorView*> order = in_file_order(content.tensors);
  nlohmann::json header = nlohmann::json::object();
  if (!content.metadata.empty()) header[kMetadataKey] = content.metadata;
  std::uint64_t offset = 0;
  for (const TensorView* tensor : order) {
    const std::uint64_t end = offset + tensor->bytes.size();
    header[tensor->name] = {{"dtype", name_of(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string start(kSafetensorsLength, '\0');
  try {
    start += header.dump();
  } catch (const nlohmann::json::exception&) {
    refuse_to_write("a name or a metadata text is not UTF-8");
  }
  start.resize((start.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = start.size() - kSafetensorsLength;
  if (length > kMaxSafetensorsHeader) refuse_to_write("its header exceeds 100 MB");
  boost::endian::store_little_u64(reinterpret_cast<unsigned char*>(start.data()), length);
  sink(as_bytes(Span<const char>(start.data(), start.size())));
  for (const TensorView* tensor : order) sink(tensor->bytes);
}

std::uint64_t safetensors_start_bytes(Span<const std::byte> first, const std::string& shown) {
  return Reader(first, shown).start_bytes();
}

void check_safetensors_size(Span<const std::byte> start, std::uint64_t file_bytes,
                            const std::string& shown) {
  Reader(start, shown).check_size(file_bytes);
}

SafetensorsContent read_safetensors(Span<const std::byte> file, const std::string& shown) {
  return Reader(file, shown).read();
}

}  // namespace troupe
