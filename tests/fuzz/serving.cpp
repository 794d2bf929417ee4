// What travels between workers and parameter servers: messages, gradients and values.
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/json_messages.h"
#include "troupe/strategies/parameter_server/wire/row_messages.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe::fuzz::serving_target {
namespace {

enum Kind : unsigned char {
  launch,
  step_answer,
  target_clocks,
  finish,
  statistics,
  push,
  values,
  own
};
constexpr unsigned kKinds = own + 1;
constexpr int kServer = 1;

const auto kWrite = [](const auto& message) { return to_json(message); };

const ServedModel& model() {
  static const ServedModel served{
      {{"a", 0, 4, 12}, {"b", 1, 3, 7}, {"c", -1, 1, 4}, {"d", 0, 0, 8}},
      {{0, 0, 0, 2},
       {0, kServer, 2, 2},
       {1, kServer, 0, 3},
       {2, kServer, 0, 1},
       {3, kServer, 0, 0}}};
  return served;
}

/// Gives out the values of blocks that were decoded.
class BlockStore final : public ParameterStore {
 public:
  explicit BlockStore(const std::vector<RowBlock>& blocks) : blocks_(blocks) {}
  void load(Span<const std::byte>) override {}
  std::vector<std::byte> save() override { return {}; }
  [[nodiscard]] bool accepts(const Push&) const override { return true; }
  void apply(const std::vector<const Push*>&, double) override {}
  void read(int shard, Span<const std::int64_t>, Span<std::byte> out) const override {
    for (const RowBlock& block : blocks_) {
      if (block.shard != shard) continue;
      FUZZ_REQUIRE(block.values.size() == out.size());
      std::copy(block.values.begin(), block.values.end(), out.begin());
    }
  }

 private:
  const std::vector<RowBlock>& blocks_;
};

/// Every row exists and every value was in the message.
void check_blocks(const std::vector<RowBlock>& blocks, std::string_view message) {
  std::size_t bytes = 0;
  for (const RowBlock& block : blocks) {
    const Shard& shard = model().shard(block.shard);
    FUZZ_REQUIRE(shard.server == kServer);
    for (const std::int64_t row : block.rows) FUZZ_REQUIRE(row >= 0 && row < shard.rows);
    const auto rows = block.all_rows ? static_cast<std::size_t>(shard.rows) : block.rows.size();
    FUZZ_REQUIRE(block.values.size() == rows * model().tensor_of(shard).row_bytes);
    bytes += block.values.size();
  }
  FUZZ_REQUIRE(bytes <= message.size());
  FUZZ_REQUIRE(message.size() <= bulk_limits(model(), kServer).rows);
}

std::vector<std::byte> vector_of(std::string_view text) {
  const auto bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

/// The same bytes but for padding, which a receiver ignores: written once more, nothing changes.
bool run_push(std::string_view message) {
  const auto received = decode_push(vector_of(message), model(), kServer);
  if (!received) return false;
  check_blocks(received->push.gradients, message);
  const auto written = encode_push(received->place, received->push, model(), kServer);
  FUZZ_REQUIRE(written.size() == message.size());
  const auto again = decode_push(written, model(), kServer);
  FUZZ_REQUIRE(again);
  FUZZ_REQUIRE(encode_push(again->place, again->push, model(), kServer) == written);
  return true;
}

std::vector<std::byte> written_again(const std::vector<RowBlock>& blocks) {
  std::vector<ChangeLog::Change> changes;
  for (const RowBlock& block : blocks) {
    changes.push_back({block.shard, block.all_rows, {block.rows.begin(), block.rows.end()}});
  }
  return encode_values(changes, model(), BlockStore(blocks));
}

bool run_values(std::string_view input) {
  const std::vector<std::byte> message = vector_of(input);  // aligned, as a connection's buffer is
  const auto blocks = decode_values(Span<const std::byte>(message), model(), kServer);
  if (!blocks) return false;
  check_blocks(*blocks, input);
  const auto written = written_again(*blocks);
  FUZZ_REQUIRE(written.size() == message.size());
  const auto again = decode_values(Span<const std::byte>(written), model(), kServer);
  FUZZ_REQUIRE(again);
  FUZZ_REQUIRE(written_again(*again) == written);
  return true;
}

/// What a server makes itself: reasons and names that may be any text, counts as they come.
bool run_own(std::string_view input) {
  Values from(input);
  PaceStatistics counted;
  for (auto events = from.below_or(300); events > 0; --events) {
    counted.count(static_cast<std::int64_t>(from.below_or(kMaxClock)),
                  static_cast<std::int64_t>(from.below_or(kMaxClock)));
  }
  const std::string reason = from.text();
  counted.lost = {from.text().substr(0, 100), "worker/2 at step 700"};
  arrives(FrameType::statistics, counted, kWrite, statistics_from);
  StepAnswer answer;
  answer.last_step = counted.updates;
  answer.ended = reason;
  arrives(FrameType::begun, answer, kWrite, step_answer_from);
  arrives(FrameType::finish, reason, finish_to_json, finish_from);
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}
std::string seed(Kind kind, const std::vector<std::byte>& content) {
  return seed(kind, text_of(Span<const std::byte>(content)));
}

std::vector<std::byte> sample_push(int optimizer, const std::vector<RowBlock>& gradients) {
  Push made;
  made.optimizer = optimizer;
  made.learning_rates = {0.5, 0.25};
  made.weight = 8;
  made.divisor = 16;
  made.gradients = gradients;
  return encode_push({3, 2}, made, model(), kServer);
}

}  // namespace

std::vector<std::string> seeds() {
  PaceStatistics counted;
  counted.count(0, 0);
  counted.count(2, 5);
  counted.lost = {"worker/2 at step 700"};
  counted.joined_again = {"worker/2"};
  static const std::vector<std::byte> bytes(24, std::byte{7});
  static const std::vector<std::int64_t> rows = {1, 0};
  const Span<const std::byte> all(bytes);
  const std::vector<RowBlock> whole = {{1, true, {}, all}, {4, true, {}, {}}};
  const std::vector<RowBlock> some = {{2, false, rows, all.subspan(0, 14)}};
  const std::vector<RowBlock> of_all = {whole[0], some[0], {3, true, {}, all.subspan(0, 4)}};
  return {seed(launch, to_json(Launch{10, 20})),
          seed(step_answer, to_json(StepAnswer{5, 0, ""})),
          seed(step_answer, to_json(StepAnswer{std::nullopt, 7, "--max-steps is reached"})),
          seed(target_clocks, to_json(TargetClocks{{0, 5}, {3, 7}})),
          seed(finish, finish_to_json("training is over")),
          seed(statistics, to_json(counted)),
          seed(push, sample_push(0, whole)),
          seed(push, sample_push(1, some)),
          seed(values, written_again(of_all)),
          seed(own, std::string("\2\0\0\0\0\0\0\0", 8) + std::string(32, '\3') +
                        std::string("\3\0no.\2\0ab", 9))};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  switch (kind) {
    case launch:
      return survives(FrameType::launch, input, kWrite, launch_from);
    case step_answer:
      return survives(FrameType::begun, input, kWrite, step_answer_from);
    case target_clocks:
      return survives(FrameType::held, input, kWrite, target_clocks_from);
    case finish:
      return survives(FrameType::finish, input, finish_to_json, finish_from);
    case statistics:
      return survives(FrameType::statistics, input, kWrite, statistics_from);
    case push:
      return run_push(input);
    case values:
      return run_values(input);
    default:
      return run_own(input);
  }
}

const Registration registered({"serving", seeds, run});

}  // namespace troupe::fuzz::serving_target
