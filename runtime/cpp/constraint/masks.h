#pragma once

#include <unordered_map>

#include "constraint/plain_reach.h"
#include "constraint/recognizer.h"
#include "constraint/token_trie.h"
#include "constraint/vocabulary.h"

namespace thimble {

/// Which tokens may come at each state of a recognizer. A mask is kept for when its state returns.
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
  TokenMask compute(Recognizer::State state);

  Recognizer& recognizer_;
  const Vocabulary& vocabulary_;
  PlainReach reach_;
  std::unordered_map<Recognizer::State, TokenMask> kept_;
};

}  // namespace thimble
