#include "troupe/report/event_message.h"

#include <cmath>
#include <limits>

#include "troupe/report/protobuf_wire.h"

namespace troupe {
namespace {

// Field numbers of the messages, by the message's name.
constexpr std::uint32_t kEventWallTime = 1;
constexpr std::uint32_t kEventStep = 2;
constexpr std::uint32_t kEventFileVersion = 3;
constexpr std::uint32_t kEventSummary = 5;
constexpr std::uint32_t kEventSessionLog = 7;
constexpr std::uint32_t kSessionStatus = 1;
constexpr std::int64_t kSessionStart = 1;
constexpr std::uint32_t kSummaryValue = 1;
constexpr std::uint32_t kValueTag = 1;
constexpr std::uint32_t kValueSimple = 2;
constexpr std::uint32_t kValueImage = 4;
constexpr std::uint32_t kValueHistogram = 5;
constexpr std::uint32_t kValueTensor = 8;
constexpr std::uint32_t kValueMetadata = 9;
constexpr std::uint32_t kMetadataPluginData = 1;
constexpr std::uint32_t kMetadataPluginName = 1;  // of the plugin data
constexpr std::uint32_t kTensorType = 1;
constexpr std::uint32_t kTensorShape = 2;
constexpr std::uint32_t kTensorDimension = 2;  // of the shape
constexpr std::uint32_t kTensorSize = 1;       // of the dimension
constexpr std::uint32_t kTensorContent = 4;
constexpr std::uint32_t kTensorFloats = 5;
constexpr std::uint32_t kTensorDoubles = 6;
constexpr std::uint32_t kTensorStrings = 8;
constexpr std::uint32_t kImageHeight = 1;
constexpr std::uint32_t kImageWidth = 2;
constexpr std::uint32_t kImageColours = 3;
constexpr std::uint32_t kImageBytes = 4;
constexpr std::uint32_t kHistogramMin = 1;
constexpr std::uint32_t kHistogramMax = 2;
constexpr std::uint32_t kHistogramCount = 3;
constexpr std::uint32_t kHistogramSum = 4;
constexpr std::uint32_t kHistogramSquares = 5;
constexpr std::uint32_t kHistogramLimits = 6;
constexpr std::uint32_t kHistogramBuckets = 7;
constexpr std::int64_t kTensorFloatType = 1;
constexpr std::int64_t kTensorDoubleType = 2;
constexpr std::int64_t kTensorStringType = 7;

constexpr const char* kVersionText = "brain.Event:2";

/// A message with one field, which is text or a message itself.
std::string wrap(std::uint32_t field, const std::string& content) {
  WireWriter writer;
  writer.put_bytes(field, content);
  return writer.message();
}

/// Which of TensorBoard's pages shows the value.
std::string encode_metadata(const std::string& plugin) {
  return wrap(kMetadataPluginData, wrap(kMetadataPluginName, plugin));
}

WireWriter begin_event(std::int64_t step, WallTime now) {
  WireWriter writer;
  writer.put_double(kEventWallTime, now);
  writer.put_integer(kEventStep, step);
  return writer;
}

/// An event of one value of a summary: `content` is its field `field`.
std::string event_of(std::int64_t step, const std::string& tag, std::uint32_t field,
                     const std::string& content, WallTime now, const std::string& plugin = "") {
  WireWriter value;
  value.put_bytes(kValueTag, tag);
  value.put_bytes(field, content);
  if (!plugin.empty()) value.put_bytes(kValueMetadata, encode_metadata(plugin));
  WireWriter writer = begin_event(step, now);
  writer.put_bytes(kEventSummary, wrap(kSummaryValue, value.message()));
  return writer.message();
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
  size.put_integer(kTensorSize, 1);
  WireWriter writer;
  writer.put_integer(kTensorType, kTensorStringType);
  writer.put_bytes(kTensorShape, wrap(kTensorDimension, size.message()));
  writer.put_bytes(kTensorStrings, content);
  return writer.message();
}

bool has_dimension(std::string_view shape) {
  bool found = false;
  for (WireReader field(shape); field.next();) {
    found |= field.is(kTensorDimension, WireType::bytes);
  }
  return found;
}

/// Numbers may stand in a list of their type, packed or one by one, or as bytes in the content.
std::optional<double> decode_tensor(std::string_view message) {
  std::uint64_t type = 0;
  bool scalar = true;
  std::string numbers;
  for (WireReader field(message); field.next();) {
    if (field.is(kTensorType, WireType::varint)) type = field.integer();
    if (field.is(kTensorShape, WireType::bytes)) scalar &= !has_dimension(field.bytes());
    if (field.number() == kTensorContent || field.number() == kTensorFloats ||
        field.number() == kTensorDoubles) {
      numbers += field.bytes();
    }
  }
  if (!scalar) return std::nullopt;
  if (type == kTensorFloatType && numbers.size() == sizeof(float))
    return from_little_endian<float>(numbers);
  if (type == kTensorDoubleType && numbers.size() == sizeof(double))
    return from_little_endian<double>(numbers);
  return std::nullopt;
}

void decode_value(std::string_view message, Event& event) {
  std::string tag;
  std::optional<double> number;
  for (WireReader field(message); field.next();) {
    if (field.is(kValueTag, WireType::bytes)) tag = field.bytes();
    if (field.is(kValueSimple, WireType::fixed32))
      number = from_little_endian<float>(field.bytes());
    if (field.is(kValueTensor, WireType::bytes)) number = decode_tensor(field.bytes());
  }
  event.tags.push_back(tag);
  if (number) event.scalars.push_back({tag, *number});
}

void decode_summary(std::string_view message, Event& event) {
  for (WireReader field(message); field.next();) {
    if (field.is(kSummaryValue, WireType::bytes)) decode_value(field.bytes(), event);
  }
}

bool is_session_start(std::string_view message) {
  std::uint64_t status = 0;
  for (WireReader field(message); field.next();) {
    if (field.is(kSessionStatus, WireType::varint)) status = field.integer();
  }
  return status == kSessionStart;
}

}  // namespace

std::string encode_file_version(WallTime now) {
  WireWriter writer;
  writer.put_double(kEventWallTime, now);
  writer.put_bytes(kEventFileVersion, kVersionText);
  return writer.message();
}

std::string encode_session_start(std::int64_t step, WallTime now) {
  WireWriter session;
  session.put_integer(kSessionStatus, kSessionStart);
  WireWriter writer = begin_event(step, now);
  writer.put_bytes(kEventSessionLog, session.message());
  return writer.message();
}

std::string encode_scalars(std::int64_t step, const std::vector<Scalar>& scalars, WallTime now) {
  const std::string shown_as = encode_metadata("scalars");
  WireWriter values;
  for (const Scalar& scalar : scalars) {
    WireWriter one;
    one.put_bytes(kValueTag, scalar.tag);
    one.put_float(kValueSimple, to_float(scalar.value));
    one.put_bytes(kValueMetadata, shown_as);
    values.put_bytes(kSummaryValue, one.message());
  }
  WireWriter writer = begin_event(step, now);
  writer.put_bytes(kEventSummary, values.message());
  return writer.message();
}

std::string encode_text(std::int64_t step, const std::string& tag, const std::string& content,
                        WallTime now) {
  return event_of(step, tag, kValueTensor, encode_text_tensor(content), now, "text");
}

std::string encode_histogram(std::int64_t step, const std::string& tag, const Histogram& histogram,
                             WallTime now) {
  std::string limits;
  std::string counts;
  double total = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const auto count = static_cast<double>(histogram.counts[i]);
    append_little_endian(limits, histogram.edges[i + 1]);
    append_little_endian(counts, count);
    total += count;
  }
  WireWriter spread;
  spread.put_double(kHistogramMin, histogram.edges.front());
  spread.put_double(kHistogramMax, histogram.edges.back());
  spread.put_double(kHistogramCount, total);
  spread.put_double(kHistogramSum, histogram.sum);
  spread.put_double(kHistogramSquares, histogram.sum_of_squares);
  spread.put_bytes(kHistogramLimits, limits);
  spread.put_bytes(kHistogramBuckets, counts);
  return event_of(step, tag, kValueHistogram, spread.message(), now);
}

std::string encode_image(std::int64_t step, const std::string& tag, const std::string& png,
                         const ImageSize& size, WallTime now) {
  constexpr std::int64_t kRgb = 3;  // readers take the colours from the file itself
  WireWriter image;
  image.put_integer(kImageHeight, size.height);
  image.put_integer(kImageWidth, size.width);
  image.put_integer(kImageColours, kRgb);
  image.put_bytes(kImageBytes, png);
  return event_of(step, tag, kValueImage, image.message(), now);
}

Event decode_event(std::string_view message) {
  Event decoded;
  for (WireReader field(message); field.next();) {
    if (field.is(kEventStep, WireType::varint)) {
      decoded.step = static_cast<std::int64_t>(field.integer());
    } else if (field.is(kEventSummary, WireType::bytes)) {
      decode_summary(field.bytes(), decoded);
    } else if (field.is(kEventSessionLog, WireType::bytes)) {
      decoded.session_start = is_session_start(field.bytes());
    }
  }
  return decoded;
}

}  // namespace troupe
