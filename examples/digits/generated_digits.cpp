#include "examples/digits/generated_digits.h"

#include <ATen/Functions.h>

#include <cstddef>
#include <utility>

namespace troupe {

GeneratedDigits::GeneratedDigits(DigitsSplit split, std::int64_t begin, std::int64_t count,
                                 std::uint64_t seed, ByteScale scale)
    : split_(split),
      begin_(begin),
      count_(count),
      seed_(seed),
      images_(at::empty({count, 1, kDigitSide, kDigitSide}, at::kByte)),
      labels_(at::empty({count}, at::kLong)),
      digits_({images_, labels_}, scale),
      state_(new std::atomic<Image>[static_cast<std::size_t>(count)]) {
  for (std::int64_t i = 0; i < count; ++i) state_[static_cast<std::size_t>(i)] = Image::missing;
}

GeneratedDigits::~GeneratedDigits() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<at::Tensor> GeneratedDigits::get(const at::Tensor& indices) const {
  std::vector<at::Tensor> fields;
  get_into(indices, fields);
  return fields;
}

void GeneratedDigits::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  const bool usual = indices.scalar_type() == at::kLong && indices.is_contiguous();
  if (!usual) return get_into(indices.to(at::kLong).contiguous(), fields);
  std::call_once(begun_, [this] { thread_ = std::thread([this] { draw_all(); }); });
  const auto* const rows = indices.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    if (rows[i] < 0 || rows[i] >= count_) continue;  // refused below
    draw_if_missing(rows[i]);
    const auto& state = state_[static_cast<std::size_t>(rows[i])];
    while (state.load(std::memory_order_acquire) != Image::drawn) std::this_thread::yield();
  }
  digits_.get_into(indices, fields);
}

void GeneratedDigits::draw_if_missing(std::int64_t index) const {
  auto& state = state_[static_cast<std::size_t>(index)];
  Image expected = Image::missing;
  if (!state.compare_exchange_strong(expected, Image::being_drawn)) return;
  labels_.data_ptr<std::int64_t>()[index] = generate_digit(
      split_, begin_ + index, seed_, images_.data_ptr<std::uint8_t>() + index * kDigitPixels);
  state.store(Image::drawn, std::memory_order_release);
}

void GeneratedDigits::draw_all() const {
  for (std::int64_t i = 0; i < count_ && !stopped_; ++i) draw_if_missing(i);
}

}  // namespace troupe
