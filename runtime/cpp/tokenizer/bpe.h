#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/hash_tables.h"

namespace thimble {

/// Byte pair encoding of one word at a time; reuses its working memory.
class BpeMerger {
 public:
  /// Merges adjoining symbols, the lowest rank first and the leftmost of equals, until none merges.
  /// O(n log n). `symbols` must be shorter than 2^31.
  void merge(const MergeTable& merges, std::vector<uint32_t>* symbols);

 private:
  struct Symbol {
    uint32_t id;
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t position;
    uint32_t left;
    uint32_t right;
    uint32_t merged;
  };

  void merge_short(const MergeTable& merges, std::vector<uint32_t>* symbols);
  void merge_long(const MergeTable& merges, std::vector<uint32_t>* symbols);
  void add_candidate(const MergeTable& merges, int32_t position, int32_t next);

  std::vector<MergeTable::Merge> pairs_;
  std::vector<Symbol> list_;
  std::vector<Candidate> heap_;
};

}  // namespace thimble
