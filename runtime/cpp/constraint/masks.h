#pragma once

#include <unordered_map>

#include "constraint/free_string_length.h"
#include "constraint/recognizer.h"
#include "constraint/token_trie.h"
#include "constraint/vocabulary.h"

namespace thimble {

/// Which tokens may come at each state of a recognizer. A mask is kept for when its state returns,
/// or another one that allows the same texts of a token's length.
class Masks {
 public:
  /// Both must outlive the masks.
  Masks(Recognizer& recognizer, const Vocabulary& vocabulary)
      : recognizer_(recognizer), vocabulary_(vocabulary) {}

  /// The tokens that may follow: those that a text which matches can go on with, and the tokens
  /// that end a text if it may end here. Valid until the next call.
  const TokenMask& at(Recognizer::State state);

  /// Forgets all, after Recognizer::restart().
  void clear();

 private:
  void compute(Recognizer::State state, TokenMask* mask);
  void compute(const Vocabulary::Group& group, bool plain, Recognizer::State state,
               TokenMask* mask);

  Recognizer& recognizer_;
  const Vocabulary& vocabulary_;
  FreeStringLength reach_;
  /// Of all tokens, and of groups of them with or without the plain ones.
  std::unordered_map<uint32_t, TokenMask> kept_;
};

}  // namespace thimble
