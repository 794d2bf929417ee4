#include "tests/programs/program.h"

#include <algorithm>

#include "troupe/data/sampler.h"

namespace troupe::programs {

Rows all_rows() {
  const auto wave = [](std::int64_t count, double step, double phase) {
    return torch::sin(torch::arange(count, torch::kFloat64) * step + phase);
  };
  Rows all;
  all.x = wave(kExamples * kInputs, 1.3, 0.2).view({kExamples, kInputs});
  all.y =
      (all.x * wave(kInputs, 0.9, 1)).sum(1, /*keepdim=*/true) + 0.3 * all.x.narrow(1, 0, 1).pow(2);
  all.label = (torch::arange(kExamples) * 7 / 5).remainder(3).to(torch::kLong);
  all.tokens =
      (torch::arange(kExamples * 4) * 11 / 3).remainder(10).to(torch::kLong).view({kExamples, 4});
  all.object = (torch::arange(kExamples).remainder(kBatch) >= kBatch - 4).to(torch::kFloat64);
  for (at::Tensor* const field : {&all.x, &all.y, &all.object}) *field = field->to(real());
  return all;
}

namespace {

at::ScalarType& present_real() {
  static at::ScalarType present = torch::kFloat64;
  return present;
}

Rows narrow(const Rows& rows, std::int64_t begin, std::int64_t count) {
  return {rows.x.narrow(0, begin, count), rows.y.narrow(0, begin, count),
          rows.label.narrow(0, begin, count), rows.tokens.narrow(0, begin, count),
          rows.object.narrow(0, begin, count)};
}

/// Pieces that differ by one row at most, the larger ones first.
std::vector<Rows> cut(const Rows& rows, std::int64_t pieces) {
  std::vector<Rows> all;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t count = rows.size() / pieces + (i < rows.size() % pieces ? 1 : 0);
    all.push_back(narrow(rows, begin, count));
    begin += count;
  }
  return all;
}

/// As ShardPlan does: all but the last ones are as large as the first.
std::vector<Rows> deal(const Rows& rows, std::int64_t shares) {
  const std::int64_t most = (rows.size() + shares - 1) / shares;
  std::vector<Rows> all;
  for (std::int64_t begin = 0; begin < rows.size(); begin += most)
    all.push_back(narrow(rows, begin, std::min(most, rows.size() - begin)));
  return all;
}

std::vector<Program>& registry() {
  static std::vector<Program> all;
  return all;
}

}  // namespace

at::ScalarType real() { return present_real(); }
InFloat32::InFloat32() { present_real() = torch::kFloat32; }
InFloat32::~InFloat32() { present_real() = torch::kFloat64; }

std::vector<Rows> Shares::of(std::int64_t step) const {
  const Rows batch = narrow(all_rows(), step % kStepsOfEpoch * kBatch, kBatch);
  std::vector<Rows> all;
  for (const Rows& share : deal(batch, shares)) {
    for (const Rows& part : cut(share, parts)) all.push_back(part);
  }
  return all;
}

std::vector<NamedTensor> tensors_of(torch::nn::Module& net, const std::string& prefix) {
  std::vector<NamedTensor> all;
  for (const auto& item : net.named_parameters())
    all.emplace_back(prefix + item.key(), item.value());
  for (const auto& item : net.named_buffers()) all.emplace_back(prefix + item.key(), item.value());
  return all;
}

Splits ProgramHooks::create_datasets() const {
  const Rows all = all_rows();
  const auto data = std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{all.x, all.y, all.label, all.tokens, all.object});
  Splits splits{data, data, data};
  splits.sampler = sequential();
  return splits;
}

const std::vector<std::pair<Column, std::string>>& columns() {
  static const std::vector<std::pair<Column, std::string>> all = {
      {Column::alone, "alone"},
      {Column::replicas, "2 replicas"},
      {Column::two_workers, "2 workers"},
      {Column::three_workers, "3 workers"},
      {Column::two_by_two, "2 x 2"},
      {Column::gloo, "Gloo"},
      {Column::accumulate, "accumulate 3"},
      {Column::virtual_alone, "virtual 4"},
      {Column::virtual_pair, "virtual 4, 2 workers"},
      {Column::elastic, "elastic, one killed"},
      {Column::sharded, "sharded"},
      {Column::servers, "servers"},
      {Column::averages, "averages"},
      {Column::bfloat16, "bfloat16"},
      {Column::bfloat16_pair, "bfloat16, 2 workers"},
      {Column::resumed, "resumed"}};
  return all;
}

bool add(Program program) {
  for (const auto& [column, like] : {std::pair(Column::bfloat16, Column::alone),
                                     std::pair(Column::bfloat16_pair, Column::two_workers)}) {
    const auto found = program.exceptions.find(like);
    program.exceptions[column] = found == program.exceptions.end() ? Expected{} : found->second;
  }
  registry().push_back(std::move(program));
  return true;
}

const std::vector<Program>& programs() {
  std::sort(registry().begin(), registry().end(),
            [](const Program& a, const Program& b) { return a.kind < b.kind; });
  return registry();
}

std::map<Column, Expected> in(std::vector<Column> list, const Expected& expected) {
  std::map<Column, Expected> all;
  for (const Column column : list) all.emplace(column, expected);
  return all;
}

}  // namespace troupe::programs
