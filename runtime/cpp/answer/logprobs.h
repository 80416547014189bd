#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace thimble {

/// A token and the logarithm of its probability.
struct TokenLogprob {
  int32_t token;
  double logprob;
  std::string_view text;  ///< its bytes; a special token's text
};

/// A token of an answer and those that were most likely in its place. The probabilities are the
/// model's own, as its logits tell them: before bias, penalties, temperature and constraints, as
/// OpenAI's interface has them.
struct ChosenLogprob {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  ///< the most likely first, of equal ones the lowest token
};

/// \param top the number of most likely tokens.
ChosenLogprob logprob_of(int32_t token, const float* logits, int32_t count, int32_t top,
                         const Tokenizer& tokenizer);

/// As a JSON array of objects: id, text (valid UTF-8), bytes, logprob (-9999 for a probability of
/// zero), and top, the same of the most likely tokens.
std::string to_json(const std::vector<ChosenLogprob>& logprobs);

}  // namespace thimble
