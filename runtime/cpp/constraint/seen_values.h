#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// A set of 64-bit values that is emptied at no cost.
class SeenValues {
 public:
  SeenValues() : values_(64), rounds_(64, 0) {}

  /// Whether the value is new.
  bool insert(uint64_t value) {
    if (2 * count_ >= values_.size()) grow();
    size_t slot = slot_of(value);
    for (; rounds_[slot] == round_; slot = (slot + 1) & (values_.size() - 1)) {
      if (values_[slot] == value) return false;
    }
    values_[slot] = value;
    rounds_[slot] = round_;
    ++count_;
    return true;
  }

  void clear() {
    count_ = 0;
    if (++round_ != 0) return;
    rounds_.assign(rounds_.size(), 0);
    round_ = 1;
  }

 private:
  size_t slot_of(uint64_t value) const {
    return static_cast<size_t>((value * 0x9E3779B97F4A7C15u) >> 32) & (values_.size() - 1);
  }

  void grow() {
    std::vector<uint64_t> old;
    for (size_t slot = 0; slot < values_.size(); ++slot) {
      if (rounds_[slot] == round_) old.push_back(values_[slot]);
    }
    values_.assign(2 * values_.size(), 0);
    rounds_.assign(values_.size(), 0);
    round_ = 1;
    count_ = 0;
    for (const uint64_t value : old) insert(value);
  }

  std::vector<uint64_t> values_;
  std::vector<uint32_t> rounds_;
  uint32_t round_ = 1;
  size_t count_ = 0;
};

}  // namespace thimble
