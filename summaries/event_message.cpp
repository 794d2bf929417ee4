#include "summaries/event_message.h"

#include <cmath>
#include <limits>
#include <optional>

#include "summaries/protobuf_wire.h"

namespace troupe {
namespace {

// Field numbers of the messages, by the message's name.
namespace event {
constexpr std::uint32_t kWallTime = 1;
constexpr std::uint32_t kStep = 2;
constexpr std::uint32_t kFileVersion = 3;
constexpr std::uint32_t kSummary = 5;
constexpr std::uint32_t kSessionLog = 7;
}  // namespace event
namespace session_log {
constexpr std::uint32_t kStatus = 1;
constexpr std::int64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr std::uint32_t kValue = 1;
}
namespace value {
constexpr std::uint32_t kTag = 1;
constexpr std::uint32_t kSimpleValue = 2;
constexpr std::uint32_t kTensor = 8;
constexpr std::uint32_t kMetadata = 9;
}  // namespace value
namespace metadata {
constexpr std::uint32_t kPluginData = 1;
constexpr std::uint32_t kPluginName = 1;  // of the plugin data
}  // namespace metadata
namespace tensor {
constexpr std::uint32_t kType = 1;
constexpr std::uint32_t kShape = 2;
constexpr std::uint32_t kDimension = 2;  // of the shape
constexpr std::uint32_t kSize = 1;       // of the dimension
constexpr std::uint32_t kContent = 4;
constexpr std::uint32_t kFloats = 5;
constexpr std::uint32_t kDoubles = 6;
constexpr std::uint32_t kStrings = 8;
constexpr std::int64_t kFloatType = 1;
constexpr std::int64_t kDoubleType = 2;
constexpr std::int64_t kStringType = 7;
}  // namespace tensor

constexpr const char* kFileVersion = "brain.Event:2";

/// A message with one field, which is text or a message itself.
std::string wrap(std::uint32_t field, const std::string& content) {
  WireWriter writer;
  writer.put_bytes(field, content);
  return writer.message();
}

/// Which of TensorBoard's pages shows the value.
std::string encode_metadata(const std::string& plugin) {
  return wrap(metadata::kPluginData, wrap(metadata::kPluginName, plugin));
}

WireWriter begin_event(WallTime now) {
  WireWriter writer;
  writer.put_double(event::kWallTime, now);
  return writer;
}

WireWriter begin_event(std::int64_t step, WallTime now) {
  WireWriter writer = begin_event(now);
  writer.put_integer(event::kStep, step);
  return writer;
}

/// A number beyond float32 becomes an infinity; the conversion itself would be undefined there.
float to_float(double number) {
  constexpr double kMax = std::numeric_limits<float>::max();
  if (std::isfinite(number) && std::abs(number) > kMax) {
    return std::copysign(std::numeric_limits<float>::infinity(), number > 0 ? 1.0F : -1.0F);
  }
  return static_cast<float>(number);
}

/// A tensor of one text in one dimension, which is what the text page takes.
std::string encode_text_tensor(const std::string& content) {
  WireWriter size;
  size.put_integer(tensor::kSize, 1);
  WireWriter writer;
  writer.put_integer(tensor::kType, tensor::kStringType);
  writer.put_bytes(tensor::kShape, wrap(tensor::kDimension, size.message()));
  writer.put_bytes(tensor::kStrings, content);
  return writer.message();
}

bool has_dimension(std::string_view shape) {
  bool found = false;
  for (const WireField& field : WireReader(shape)) {
    found |= field.is(tensor::kDimension, WireType::bytes);
  }
  return found;
}

/// Numbers may stand in a list of their type, packed or one by one, or as bytes in the content.
std::optional<double> decode_tensor(std::string_view message) {
  std::uint64_t type = 0;
  bool scalar = true;
  std::string numbers;
  for (const WireField& field : WireReader(message)) {
    if (field.is(tensor::kType, WireType::varint)) type = field.integer;
    if (field.is(tensor::kShape, WireType::bytes)) scalar &= !has_dimension(field.bytes);
    if (field.number == tensor::kContent || field.number == tensor::kFloats ||
        field.number == tensor::kDoubles) {
      numbers += field.bytes;
    }
  }
  if (!scalar) return std::nullopt;
  if (type == tensor::kFloatType && numbers.size() == sizeof(float)) return float_of(numbers);
  if (type == tensor::kDoubleType && numbers.size() == sizeof(double)) return double_of(numbers);
  return std::nullopt;
}

void decode_value(std::string_view message, std::vector<Scalar>& scalars) {
  std::string tag;
  std::optional<double> number;
  for (const WireField& field : WireReader(message)) {
    if (field.is(value::kTag, WireType::bytes)) tag = field.bytes;
    if (field.is(value::kSimpleValue, WireType::fixed32)) number = float_of(field.bytes);
    if (field.is(value::kTensor, WireType::bytes)) number = decode_tensor(field.bytes);
  }
  if (number) scalars.push_back({tag, *number});
}

void decode_summary(std::string_view message, std::vector<Scalar>& scalars) {
  for (const WireField& field : WireReader(message)) {
    if (field.is(summary::kValue, WireType::bytes)) decode_value(field.bytes, scalars);
  }
}

bool is_session_start(std::string_view message) {
  std::uint64_t status = 0;
  for (const WireField& field : WireReader(message)) {
    if (field.is(session_log::kStatus, WireType::varint)) status = field.integer;
  }
  return status == session_log::kStart;
}

}  // namespace

std::string encode_file_version(WallTime now) {
  WireWriter writer = begin_event(now);
  writer.put_bytes(event::kFileVersion, kFileVersion);
  return writer.message();
}

std::string encode_session_start(std::int64_t step, WallTime now) {
  WireWriter session;
  session.put_integer(session_log::kStatus, session_log::kStart);
  WireWriter writer = begin_event(step, now);
  writer.put_bytes(event::kSessionLog, session.message());
  return writer.message();
}

std::string encode_scalars(std::int64_t step, const std::vector<Scalar>& scalars, WallTime now) {
  const std::string shown_as = encode_metadata("scalars");
  WireWriter values;
  for (const Scalar& scalar : scalars) {
    WireWriter one;
    one.put_bytes(value::kTag, scalar.tag);
    one.put_float(value::kSimpleValue, to_float(scalar.value));
    one.put_bytes(value::kMetadata, shown_as);
    values.put_bytes(summary::kValue, one.message());
  }
  WireWriter writer = begin_event(step, now);
  writer.put_bytes(event::kSummary, values.message());
  return writer.message();
}

std::string encode_text(std::int64_t step, const std::string& tag, const std::string& content,
                        WallTime now) {
  WireWriter one;
  one.put_bytes(value::kTag, tag);
  one.put_bytes(value::kTensor, encode_text_tensor(content));
  one.put_bytes(value::kMetadata, encode_metadata("text"));
  WireWriter writer = begin_event(step, now);
  writer.put_bytes(event::kSummary, wrap(summary::kValue, one.message()));
  return writer.message();
}

Event decode_event(std::string_view message) {
  Event decoded;
  for (const WireField& field : WireReader(message)) {
    if (field.is(event::kStep, WireType::varint)) {
      decoded.step = static_cast<std::int64_t>(field.integer);
    } else if (field.is(event::kSummary, WireType::bytes)) {
      decode_summary(field.bytes, decoded.scalars);
    } else if (field.is(event::kSessionLog, WireType::bytes)) {
      decoded.session_start = is_session_start(field.bytes);
    }
  }
  return decoded;
}

}  // namespace troupe
