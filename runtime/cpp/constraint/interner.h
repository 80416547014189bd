#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace thimble {

/// Numbers lists of 64-bit values: equal lists have the same number, from 0 on.
class Interner {
 public:
  Interner() { slots_.assign(64, kFree); }

  struct List {
    const uint64_t* begin_;
    const uint64_t* end_;
    const uint64_t* begin() const { return begin_; }
    const uint64_t* end() const { return end_; }
    size_t size() const { return static_cast<size_t>(end_ - begin_); }
  };

  List operator[](uint32_t number) const {
    return {values_.data() + ends_[number], values_.data() + ends_[number + 1]};
  }

  size_t size() const { return ends_.size() - 1; }
  size_t bytes() const {
    return values_.size() * sizeof(uint64_t) + (ends_.size() + slots_.size()) * sizeof(uint32_t);
  }

  uint32_t add(const std::vector<uint64_t>& list) {
    if (2 * size() >= slots_.size()) grow();
    size_t slot = slot_of(list.data(), list.size());
    for (; slots_[slot] != kFree; slot = (slot + 1) & (slots_.size() - 1)) {
      const List other = (*this)[slots_[slot]];
      if (std::equal(other.begin(), other.end(), list.begin(), list.end())) return slots_[slot];
    }
    const auto number = static_cast<uint32_t>(size());
    slots_[slot] = number;
    values_.insert(values_.end(), list.begin(), list.end());
    ends_.push_back(static_cast<uint32_t>(values_.size()));
    return number;
  }

 private:
  static constexpr uint32_t kFree = 0xFFFFFFFF;

  size_t slot_of(const uint64_t* values, size_t count) const {
    uint64_t hash = count;
    for (size_t i = 0; i < count; ++i) {
      hash = (hash ^ values[i]) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return static_cast<size_t>(hash ^ hash >> 32) & (slots_.size() - 1);
  }

  void grow() {
    slots_.assign(2 * slots_.size(), kFree);
    for (uint32_t number = 0; number < size(); ++number) {
      const List list = (*this)[number];
      size_t slot = slot_of(list.begin(), list.size());
      while (slots_[slot] != kFree) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = number;
    }
  }

  std::vector<uint64_t> values_;
  std::vector<uint32_t> ends_{0};
  std::vector<uint32_t> slots_;
};

}  // namespace thimble
