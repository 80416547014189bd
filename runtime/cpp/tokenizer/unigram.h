#pragma once

#include <cstdint>
#include <string_view>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/encoding.h"
#include "tokenizer/trie.h"

namespace thimble {

/// The likeliest sequence of tokens (Kudo, "Subword Regularization", 2018; Viterbi's algorithm).
class Unigram {
 public:
  static Result<Unigram> load(const FlatbufferTable& table, int32_t vocab_size);

  void encode(std::string_view word, Encoding* encoding) const;

 private:
  /// The best way to reach a place in the text.
  template <typename Score>
  struct Node {
    int64_t begin = -1;  ///< of the token that ends here; -1: no token does
    int32_t id = -1;
    Score score = 0;
  };

  template <typename Score>
  void solve(std::string_view word, Encoding* encoding) const;
  void append_unknown(std::string_view text, Encoding* encoding) const;

  Trie trie_;
  FlatbufferVector<double> scores_;
  int32_t unknown_id_ = -1;
  double unknown_score_ = 0;
  ByteTokens byte_tokens_;
  bool single_precision_ = false;
};

}  // namespace thimble
