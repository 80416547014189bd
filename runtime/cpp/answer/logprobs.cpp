#include "answer/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "constraint/json.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr double kLeastLogprob = -9999;  // JSON has no infinity; OpenAI's interface has this

/// Without the closing brace.
std::string fields_of(const TokenLogprob& token) {
  char logprob[32];
  std::snprintf(logprob, sizeof(logprob), "%.9g", std::max(token.logprob, kLeastLogprob));
  std::string bytes;
  for (const char c : token.text) {
    bytes += (bytes.empty() ? "" : ", ") + std::to_string(static_cast<unsigned char>(c));
  }
  return "{\"id\": " + std::to_string(token.token) +
         ", \"text\": " + quoted_json(with_valid_utf8(std::string(token.text))) + ", \"bytes\": [" +
         bytes + "], \"logprob\": " + logprob;
}

}  // namespace

ChosenLogprob logprob_of(int32_t token, const float* logits, int32_t count, int32_t top,
                         const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    if (!std::isnan(logits[i])) tokens.push_back(i);
  }
  const auto kept = std::min(static_cast<size_t>(std::max(top, 1)), tokens.size());
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(tokens.begin(), end, tokens.end(), [logits](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const double most = logits[tokens.front()];
  const auto distance = [&](int32_t i) { return logits[i] == most ? 0.0 : logits[i] - most; };
  double sum = 0.0;
  for (const int32_t i : tokens) sum += std::exp(distance(i));
  const auto entry = [&](int32_t i) {
    return TokenLogprob{i, distance(i) - std::log(sum), tokenizer.text_of(i)};
  };
  ChosenLogprob result{entry(token), {}};
  tokens.resize(std::min(static_cast<size_t>(top), kept));
  for (const int32_t i : tokens) result.top.push_back(entry(i));
  return result;
}

std::string to_json(const std::vector<ChosenLogprob>& logprobs) {
  std::string json = "[";
  for (const ChosenLogprob& token : logprobs) {
    if (json.size() > 1) json += ",\n ";
    json += fields_of(token.chosen) + ", \"top\": [";
    for (size_t i = 0; i < token.top.size(); ++i) {
      json += (i == 0 ? "" : ", ") + fields_of(token.top[i]) + "}";
    }
    json += "]}";
  }
  return json + "]";
}

}  // namespace thimble
