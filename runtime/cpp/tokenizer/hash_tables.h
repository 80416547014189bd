#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/flatbuffer.h"
#include "tokenizer/token_texts.h"

/// Lookups in the hash tables that exporter/tokenizer/hash_tables.py writes: open addressing,
/// linear probing from a key's home slot, an empty slot after the last used one.
namespace thimble {

inline uint32_t mix_hash(uint32_t hash) {
  hash ^= hash >> 15;
  hash *= 0x2C1B3C6Du;
  hash ^= hash >> 12;
  return hash;
}

/// The merges: two adjacent symbols become one.
class MergeTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  struct Merge {
    uint32_t rank;    ///< the lowest merges first; kNone: the pair does not merge
    uint32_t merged;  ///< the symbol that the pair becomes
  };

  MergeTable() = default;
  MergeTable(FlatbufferVector<uint32_t> slots, uint32_t homes)
      : slots_(slots.bytes()), size_(slots.size() / kSlotWords), homes_(homes) {}

  Merge find(uint32_t left, uint32_t right) const {
    const uint32_t hash = mix_hash(left * 0x9E3779B1u + right * 0x85EBCA77u);
    size_t slot = static_cast<size_t>(uint64_t{hash} * homes_ >> 32);
    for (; slot < size_; ++slot) {
      uint32_t words[kSlotWords];
      std::memcpy(words, slots_ + slot * sizeof(words), sizeof(words));
      if (words[0] == left && words[1] == right) return {words[2], words[3]};
      if (words[0] == kNone) break;
    }
    return {kNone, kNone};
  }

 private:
  static constexpr size_t kSlotWords = 4;

  const uint8_t* slots_ = nullptr;
  size_t size_ = 0;
  uint32_t homes_ = 0;
};

/// The tokens by their exact bytes (schemas/tokenizer.fbs, Words).
class WordTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  WordTable() = default;
  /// `decoded`: the tokens' texts, where the table has none of its own.
  WordTable(const FlatbufferTable& table, const TokenTexts& decoded)
      : slots_(table.vector<uint32_t>(kSlots)), homes_(table.scalar<uint32_t>(kHomes)) {
    texts_ = table.has(kEnds)
                 ? TokenTexts(table.vector<uint32_t>(kEnds), table.vector<uint8_t>(kTexts))
                 : decoded;
  }

  /// Returns the token whose bytes equal `word`; kNone if there is none.
  uint32_t find(std::string_view word) const {
    uint32_t hash = 0x811C9DC5u;  // FNV-1a
    for (const char c : word) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193u;
    size_t slot = static_cast<size_t>(uint64_t{mix_hash(hash)} * homes_ >> 32);
    for (; slot < slots_.size(); ++slot) {
      const uint32_t id = slots_[slot];
      if (id >= texts_.size()) return kNone;
      if (texts_[id] == word) return id;
    }
    return kNone;
  }

 private:
  enum Field { kSlots, kHomes, kEnds, kTexts };

  FlatbufferVector<uint32_t> slots_;
  uint32_t homes_ = 0;
  TokenTexts texts_;
};

}  // namespace thimble
