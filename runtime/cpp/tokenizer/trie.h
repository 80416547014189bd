#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/flatbuffer.h"

namespace thimble {

/// Tokens by their bytes, walked one byte at a time and read in place (exporter/tokenizer/trie.py).
class Trie {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr uint32_t kRoot = 0;

  Trie() = default;
  explicit Trie(const FlatbufferTable& table)
      : first_children_(table.vector<uint32_t>(0)),
        labels_(table.vector<uint8_t>(1)),
        values_(table.vector<uint32_t>(2)) {}

  bool empty() const { return values_.empty(); }

  /// The node that `byte` leads to from `node`; kNone if there is none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    if (size_t{node} + 1 >= first_children_.size()) return kNone;
    const uint32_t begin = first_children_[node];
    const uint32_t end = first_children_[node + 1];
    if (begin >= end || end > labels_.size()) return kNone;
    const uint8_t* labels = labels_.bytes();
    const void* label = std::memchr(labels + begin, byte, end - begin);
    if (label == nullptr) return kNone;
    return static_cast<uint32_t>(static_cast<const uint8_t*>(label) - labels);
  }

  /// The node that all of `bytes` lead to from `node`; kNone if there is none.
  uint32_t descend(uint32_t node, std::string_view bytes) const {
    for (const char c : bytes) {
      node = child(node, static_cast<uint8_t>(c));
      if (node == kNone) break;
    }
    return node;
  }

  /// The token that ends at `node`; kNone when none does.
  uint32_t value(uint32_t node) const { return node < values_.size() ? values_[node] : kNone; }

  /// How many bytes the longest token takes that `text` begins with; 0 when none does.
  size_t longest(std::string_view text) const {
    size_t length = 0;
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == kNone) break;
      if (value(node) != kNone) length = i + 1;
    }
    return length;
  }

 private:
  FlatbufferVector<uint32_t> first_children_;
  FlatbufferVector<uint8_t> labels_;
  FlatbufferVector<uint32_t> values_;
};

}  // namespace thimble
