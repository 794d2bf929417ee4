// PullRange: a source of items, pulled one by one, as a range: for (auto& item : source).
#pragma once

#include <cstddef>
#include <iterator>

namespace troupe {

/// `Source` derives from PullRange<Source, Item> and has `Item* next()`, null at the end. There is
/// one pass: begin() continues at the source's position, and an item is valid until the next one.
template <class Source, class Item>
class PullRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using pointer = Item*;
    using reference = Item&;

    Iterator() = default;  // the end
    explicit Iterator(Source& source) : source_(&source), item_(source.next()) {}
    [[nodiscard]] reference operator*() const { return *item_; }
    [[nodiscard]] pointer operator->() const { return item_; }
    Iterator& operator++() {
      item_ = source_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    [[nodiscard]] bool operator==(const Iterator& other) const { return item_ == other.item_; }
    [[nodiscard]] bool operator!=(const Iterator& other) const { return item_ != other.item_; }

   private:
    Source* source_ = nullptr;
    Item* item_ = nullptr;  // null at the end
  };

  [[nodiscard]] Iterator begin() { return Iterator(static_cast<Source&>(*this)); }
  [[nodiscard]] Iterator end() { return Iterator(); }

 protected:
  ~PullRange() = default;
};

}  // namespace troupe
