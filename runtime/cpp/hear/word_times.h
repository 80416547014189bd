#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thimble {

/// How much heads attend to each step of a window while they read tokens.
struct Attention {
  size_t heads = 0, tokens = 0, steps = 0;
  std::vector<float> weights;  ///< [heads][tokens][steps]
};

/// At which step each token ended and the next one began: the path of dynamic time warping through
/// the heads' mean attention, of which each step's was set against that of other tokens.
/// \param attention has a token and a step, at least.
std::vector<size_t> token_ends(Attention attention);

/// The tokens of a word, those before `last`.
struct WordTokens {
  size_t first, last;
  std::string text;  ///< valid UTF-8, with the space that it begins with
};

/// Joins tokens to words, with the punctuation around them.
/// \param bytes of each token.
/// \param spaced whether words begin with a space; otherwise each character is a word.
std::vector<WordTokens> words_of(const std::vector<std::string_view>& bytes, bool spaced);

}  // namespace thimble
