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
      drawn_(static_cast<std::size_t>(count)) {}

std::vector<at::Tensor> GeneratedDigits::get(const at::Tensor& indices) const {
  std::vector<at::Tensor> fields;
  get_into(indices, fields);
  return fields;
}

void GeneratedDigits::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  const bool usual = indices.scalar_type() == at::kLong && indices.is_contiguous();
  if (!usual) return get_into(indices.to(at::kLong).contiguous(), fields);
  const auto* const rows = indices.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    if (rows[i] >= 0 && rows[i] < count_) draw_if_missing(rows[i]);  // others are refused below
  }
  digits_.get_into(indices, fields);
}

void GeneratedDigits::draw_if_missing(std::int64_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = static_cast<std::size_t>(index);
  if (drawn_[place]) return;
  labels_.data_ptr<std::int64_t>()[index] = generate_digit(
      split_, begin_ + index, seed_, images_.data_ptr<std::uint8_t>() + index * kDigitPixels);
  drawn_[place] = true;
}

}  // namespace troupe
