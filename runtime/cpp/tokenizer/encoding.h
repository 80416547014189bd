#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/bpe.h"

namespace thimble {

/// Where the ids of one text go, and the working memory of its words.
struct Encoding {
  std::vector<int32_t>* ids;
  BpeMerger merger;
  std::vector<uint32_t> symbols;
  bool after_unknown = false;  ///< the last id stands for a word that is unknown
};

}  // namespace thimble
