#include "troupe/strategies/parameter_server/wire/row_messages.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::size_t kBlockHeadBytes = 16;
constexpr std::size_t kPushHeadBytes = 40;
constexpr std::size_t kMaxLearningRates = 65536;
constexpr std::size_t kSlackBytes = std::size_t{1} << 20;  // heads, learning rates
// Two moments, a master copy in a wider type and what names them: no known optimiser keeps more.
constexpr std::size_t kStateCopies = 8;
constexpr std::size_t kStateSlackBytes = std::size_t{64} << 20;

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Rows of a RowBlock or a Change, and the bytes of their values.
template <class Block>
std::size_t rows_of(const Block& block, const ServedModel& model) {
  return block.all_rows ? static_cast<std::size_t>(model.shard(block.shard).rows)
                        : block.rows.size();
}
template <class Block>
std::size_t value_bytes_of(const Block& block, const ServedModel& model) {
  return rows_of(block, model) * model.tensor_of(model.shard(block.shard)).row_bytes;
}

/// Appends to a message whose size was counted before.
class Writer {
 public:
  explicit Writer(std::size_t bytes, std::vector<std::byte> memory = {})
      : message_(std::move(memory)) {
    message_.clear();
    message_.reserve(bytes);
  }
  template <class T>
  void number(T value) {
    bytes({reinterpret_cast<const std::byte*>(&value), sizeof(value)});
  }
  void bytes(Span<const std::byte> bytes) {
    message_.insert(message_.end(), bytes.begin(), bytes.end());
  }
  /// Room for so many bytes, to be filled in.
  [[nodiscard]] Span<std::byte> room(std::size_t bytes) {
    message_.resize(message_.size() + bytes);
    return {message_.data() + message_.size() - bytes, bytes};
  }
  void pad() { message_.resize(padded(message_.size())); }
  /// Shard, whether all its rows follow, and how many do.
  template <class Block>
  void head(const Block& block, const ServedModel& model) {
    number(static_cast<std::uint32_t>(block.shard));
    number(static_cast<std::uint32_t>(block.all_rows ? 1 : 0));
    number(static_cast<std::uint64_t>(rows_of(block, model)));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(message_); }

 private:
  std::vector<std::byte> message_;
};

/// Takes numbers and views from a message; after the first that is not there, `good` is false.
class Reader {
 public:
  explicit Reader(Span<const std::byte> message) : rest_(message) {}
  template <class T>
  [[nodiscard]] T number() {
    T value{};
    const auto from = bytes(sizeof(T));
    if (good_) std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }
  [[nodiscard]] Span<const std::byte> bytes(std::uint64_t count) {
    if (count > rest_.size()) good_ = false;
    if (!good_) return {};
    const auto taken = rest_.subspan(0, count);
    rest_ = rest_.subspan(count, rest_.size() - count);
    return taken;
  }
  /// `count` numbers where they are; the message is aligned, and so is every part of it.
  template <class T>
  [[nodiscard]] Span<const T> numbers(std::uint64_t count) {
    if (count > rest_.size() / sizeof(T)) good_ = false;
    const auto from = bytes(good_ ? count * sizeof(T) : 0);
    return {reinterpret_cast<const T*>(from.data()), from.size() / sizeof(T)};
  }
  void skip_padding(std::size_t of) { (void)bytes(padded(of) - of); }
  void require(bool condition) { good_ = good_ && condition; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  Span<const std::byte> rest_;
  bool good_ = true;
};

RowBlock read_block(Reader& reader, const ServedModel& model, int server) {
  RowBlock block;
  const auto shard = reader.number<std::uint32_t>();
  const auto all_rows = reader.number<std::uint32_t>();
  const auto rows = reader.number<std::uint64_t>();
  reader.require(shard < model.shards.size() && all_rows <= 1);
  if (!reader.good()) return block;
  const Shard& held = model.shards[shard];
  const auto held_rows = static_cast<std::uint64_t>(held.rows);
  reader.require(held.server == server && (all_rows == 1 ? rows == held_rows : rows <= held_rows));
  block.shard = static_cast<int>(shard);
  block.all_rows = all_rows == 1;
  if (!block.all_rows) block.rows = reader.numbers<std::int64_t>(reader.good() ? rows : 0);
  for (const std::int64_t row : block.rows) reader.require(row >= 0 && row < held.rows);
  if (!reader.good()) return block;
  const std::size_t bytes = rows * model.tensor_of(held).row_bytes;
  block.values = reader.bytes(bytes);
  reader.skip_padding(bytes);
  return block;
}

/// `count` blocks, none for the same shard, and then the end.
std::vector<RowBlock> read_blocks(Reader& reader, std::uint32_t count, const ServedModel& model,
                                  int server) {
  std::vector<RowBlock> blocks;
  std::vector<bool> seen(model.shards.size(), false);
  reader.require(count <= model.shards.size());
  for (std::uint32_t i = 0; reader.good() && i < count; ++i) {
    blocks.push_back(read_block(reader, model, server));
    if (!reader.good()) break;
    const auto shard = static_cast<std::size_t>(blocks.back().shard);
    reader.require(!seen[shard]);
    seen[shard] = true;
  }
  reader.require(reader.at_end());
  return blocks;
}

std::size_t block_bytes(std::size_t listed_rows, std::size_t values) {
  return kBlockHeadBytes + listed_rows * sizeof(std::int64_t) + padded(values);
}

}  // namespace

BulkLimits bulk_limits(const ServedModel& model, int server) {
  BulkLimits limits{kSlackBytes, kStateSlackBytes};
  for (const Shard& shard : model.shards) {
    if (shard.server != server) continue;
    limits.rows += block_bytes(static_cast<std::size_t>(shard.rows), model.bytes_of(shard));
    limits.state += kStateCopies * model.bytes_of(shard);
  }
  return limits;
}

std::vector<std::byte> encode_push(const PushPlace& place, const Push& push,
                                   const ServedModel& model, int server) {
  std::vector<const RowBlock*> blocks;
  std::size_t bytes = kPushHeadBytes + push.learning_rates.size() * sizeof(double);
  for (const RowBlock& block : push.gradients) {
    if (model.shard(block.shard).server != server) continue;
    TROUPE_CHECK_EQ(block.values.size(), value_bytes_of(block, model));
    blocks.push_back(&block);
    bytes += block_bytes(block.rows.size(), block.values.size());
  }
  Writer writer(bytes);
  writer.number(place.clock);
  writer.number(push.weight);
  writer.number(push.divisor);
  writer.number(place.sequence);
  writer.number(static_cast<std::uint32_t>(push.optimizer));
  writer.number(static_cast<std::uint32_t>(push.learning_rates.size()));
  writer.number(static_cast<std::uint32_t>(blocks.size()));
  for (const double rate : push.learning_rates) writer.number(rate);
  for (const RowBlock* block : blocks) {
    writer.head(*block, model);
    writer.bytes(as_bytes(block->rows));
    writer.bytes(block->values);
    writer.pad();
  }
  return writer.take();
}

std::optional<ReceivedPush> decode_push(std::vector<std::byte> message, const ServedModel& model,
                                        int server) {
  ReceivedPush received;
  received.message = std::move(message);
  Reader reader{Span<const std::byte>(received.message)};
  PushPlace& place = received.place;
  Push& push = received.push;
  place.clock = reader.number<std::int64_t>();
  push.weight = reader.number<double>();
  push.divisor = reader.number<double>();
  place.sequence = reader.number<std::uint32_t>();
  const auto optimizer = reader.number<std::uint32_t>();
  const auto rates = reader.number<std::uint32_t>();
  const auto blocks = reader.number<std::uint32_t>();
  const auto countable = [](std::int64_t n) { return n >= 0 && n <= kMaxClock; };
  const auto weighable = [](double n) { return n >= 0 && std::isfinite(n); };
  reader.require(countable(place.clock) && weighable(push.weight) && weighable(push.divisor) &&
                 place.sequence >= 1 && rates <= kMaxLearningRates);
  if (!reader.good()) return std::nullopt;
  push.optimizer = static_cast<int>(optimizer & 0x7FFFFFFFU);
  const auto given_rates = reader.numbers<double>(rates);
  push.learning_rates.assign(given_rates.begin(), given_rates.end());
  push.gradients = read_blocks(reader, blocks, model, server);
  bool owned = optimizer <= 0x7FFFFFFFU;
  for (const RowBlock& block : push.gradients) {
    const Shard& shard = model.shard(block.shard);
    owned = owned && model.tensor_of(shard).optimizer == push.optimizer;
  }
  if (!reader.good() || !owned) return std::nullopt;
  return received;
}

std::vector<std::byte> encode_values(const std::vector<ChangeLog::Change>& changes,
                                     const ServedModel& model, const ParameterStore& store,
                                     std::vector<std::byte> memory) {
  std::size_t bytes = kAlignment;
  for (const ChangeLog::Change& change : changes) {
    bytes += block_bytes(change.rows.size(), value_bytes_of(change, model));
  }
  Writer writer(bytes, std::move(memory));
  writer.number(static_cast<std::uint32_t>(changes.size()));
  writer.pad();
  for (const ChangeLog::Change& change : changes) {
    writer.head(change, model);
    const Span<const std::int64_t> rows(change.rows);
    writer.bytes(as_bytes(rows));
    store.read(change.shard, rows, writer.room(value_bytes_of(change, model)));
    writer.pad();
  }
  return writer.take();
}

std::optional<std::vector<RowBlock>> decode_values(Span<const std::byte> message,
                                                   const ServedModel& model, int server) {
  Reader reader(message);
  const auto count = reader.number<std::uint32_t>();
  reader.require(reader.number<std::uint32_t>() == 0);
  auto blocks = read_blocks(reader, count, model, server);
  if (!reader.good()) return std::nullopt;
  return blocks;
}

}  // namespace troupe
