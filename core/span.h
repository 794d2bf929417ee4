// Span: a non-owning view of contiguous values (C++20's std::span, for C++17).
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

namespace troupe {

/// Pointer and count; copying it copies no values. The owner must outlive it.
template <class T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
  /// From any vector whose elements convert without a copy (T may add const).
  template <class U, class = std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>>>
  Span(std::vector<U>& values) : data_(values.data()), size_(values.size()) {}  // NOLINT: a view
  template <class U, class = std::enable_if_t<std::is_convertible_v<const U (*)[], T (*)[]>>>
  Span(const std::vector<U>& values) : data_(values.data()), size_(values.size()) {}  // NOLINT
  /// Span<T> to Span<const T>.
  template <class U, class = std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>>>
  constexpr Span(const Span<U>& other) : data_(other.data()), size_(other.size()) {}  // NOLINT

  [[nodiscard]] constexpr T* data() const { return data_; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr std::size_t size_bytes() const { return size_ * sizeof(T); }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] constexpr T* begin() const { return data_; }
  [[nodiscard]] constexpr T* end() const { return data_ + size_; }
  /// The `count` values from `offset` on; the caller keeps both inside the span.
  [[nodiscard]] constexpr Span subspan(std::size_t offset, std::size_t count) const {
    return {data_ + offset, count};
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The same memory, seen as bytes.
template <class T>
[[nodiscard]] Span<const std::byte> as_bytes(Span<T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size_bytes()};
}
template <class T>
[[nodiscard]] Span<std::byte> as_writable_bytes(Span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size_bytes()};
}

}  // namespace troupe
