#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// A bit for each token of a vocabulary.
class TokenMask {
 public:
  TokenMask() = default;
  explicit TokenMask(size_t tokens) : words_((tokens + 31) / 32) {}

  bool operator[](size_t token) const {
    return token / 32 < words_.size() && (words_[token / 32] >> token % 32 & 1) != 0;
  }
  void set(size_t token) { words_[token / 32] |= uint32_t{1} << token % 32; }
  void add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool none() const {
    for (const uint32_t word : words_) {
      if (word != 0) return false;
    }
    return true;
  }
  const std::vector<uint32_t>& words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

}  // namespace thimble
