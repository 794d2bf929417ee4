// PullRange: a source of items, pulled one by one, as a range: for (auto& item : source).
#pragma once

namespace troupe::detail {

/// `Source` derives from PullRange<Source, Item> and has `Item* next()`, null at the end. There is
/// one pass: begin() continues at the source's position, and an item is valid until the next one.
template <class Source, class Item>
class PullRange {
 public:
  class Iterator {
   public:
    Iterator() = default;  // the end
    explicit Iterator(Source& source) : source_(&source), item_(source.next()) {}
    [[nodiscard]] Item& operator*() const { return *item_; }
    Iterator& operator++() {
      item_ = source_->next();
      return *this;
    }
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

}  // namespace troupe::detail
