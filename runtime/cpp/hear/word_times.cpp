#include "hear/word_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kReach = 3;  // steps on each side of the one that gets their median

/// Sets the weights of each head and step against their mean over the tokens.
void standardize(Attention* attention) {
  const size_t tokens = attention->tokens, steps = attention->steps;
  for (size_t head = 0; head < attention->heads; ++head) {
    float* weights = &attention->weights[head * tokens * steps];
    for (size_t step = 0; step < steps; ++step) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < tokens; ++i) sum += weights[i * steps + step];
      const double mean = sum / static_cast<double>(tokens);
      for (size_t i = 0; i < tokens; ++i) {
        const double off = weights[i * steps + step] - mean;
        squares += off * off;
      }
      const double spread = std::sqrt(squares / static_cast<double>(tokens));
      for (size_t i = 0; i < tokens; ++i) {
        float& weight = weights[i * steps + step];
        weight = spread > 0 ? static_cast<float>((weight - mean) / spread) : 0;
      }
    }
  }
}

/// Adds the running medians of a row to `sums`; behind its ends, it is mirrored.
void add_medians(const float* row, size_t steps, float* sums) {
  for (size_t step = 0; step < steps; ++step) {
    if (steps <= kReach) {
      sums[step] += row[step];
      continue;
    }
    std::array<float, 2 * kReach + 1> around{};
    for (size_t i = 0; i < around.size(); ++i) {
      const size_t at = step + i < kReach ? kReach - step - i : step + i - kReach;
      around[i] = row[at < steps ? at : 2 * (steps - 1) - at];
    }
    std::nth_element(around.begin(), around.begin() + kReach, around.end());
    sums[step] += around[kReach];
  }
}

/// The cheapest path through costs [tokens][steps]: the first step of each token.
std::vector<size_t> warped(const std::vector<float>& costs, size_t tokens, size_t steps) {
  enum : uint8_t { kBoth, kToken, kStep };
  const size_t width = steps + 1;
  std::vector<uint8_t> came((tokens + 1) * width, kStep);
  std::vector<float> before(width, std::numeric_limits<float>::infinity()), row(before);
  before[0] = 0;
  for (size_t i = 1; i <= tokens; ++i) {
    row[0] = std::numeric_limits<float>::infinity();
    came[i * width] = kToken;
    for (size_t j = 1; j <= steps; ++j) {
      const float both = before[j - 1], token = before[j], step = row[j - 1];
      float least = step;
      uint8_t from = kStep;
      if (both < token && both < step) {
        least = both;
        from = kBoth;
      } else if (token < both && token < step) {
        least = token;
        from = kToken;
      }
      row[j] = static_cast<float>(static_cast<double>(costs[(i - 1) * steps + j - 1]) + least);
      came[i * width + j] = from;
    }
    std::swap(before, row);
  }
  std::vector<size_t> first(tokens);
  for (size_t i = tokens, j = steps; i > 0;) {
    first[i - 1] = std::max<size_t>(j, 1) - 1;
    const uint8_t from = came[i * width + j];
    if (from != kStep) --i;
    if (from != kToken) --j;
  }
  return first;
}

bool begins_with_space(const std::string& text) { return !text.empty() && text[0] == ' '; }

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

/// Tokens together that are whole characters.
std::vector<WordTokens> characters_of(const std::vector<std::string_view>& bytes) {
  std::string all, part;
  for (const std::string_view one : bytes) all += one;
  all = with_valid_utf8(all);
  std::vector<WordTokens> found;
  size_t first = 0, done = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    part += bytes[i];
    std::string text = with_valid_utf8(part);
    const size_t bad = text.find(kReplacementCharacter);
    const bool is_whole = bad == std::string::npos || done + bad >= all.size();
    // What no further token can complete stands in the whole text too.
    if (!is_whole &&
        all.compare(done + bad, kReplacementCharacter.size(), kReplacementCharacter) != 0) {
      continue;
    }
    done += text.size();
    found.push_back({first, i + 1, std::move(text)});
    part.clear();
    first = i + 1;
  }
  if (!part.empty()) found.push_back({first, bytes.size(), with_valid_utf8(part)});
  return found;
}

/// Joins what stands before a word, such as a quote, and behind it to it.
void join_punctuation(std::vector<WordTokens>* words) {
  constexpr std::string_view kBefore = "\"'“¡¿([{-", kBehind = "\"'.。,，!！?？:：”)]}、";
  std::vector<WordTokens>& all = *words;
  for (size_t i = all.size(), next = i - 1; i-- > 1;) {
    WordTokens &one = all[i - 1], &word = all[next];
    if (begins_with_space(one.text) &&
        kBefore.find(without_spaces(one.text)) != std::string_view::npos) {
      word = {one.first, word.last, one.text + word.text};
      one.text.clear();
    } else {
      next = i - 1;
    }
  }
  const auto is_empty = [](const WordTokens& word) { return word.text.empty(); };
  all.erase(std::remove_if(all.begin(), all.end(), is_empty), all.end());
  size_t last = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    WordTokens& word = all[last];
    if (word.text.back() != ' ' && kBehind.find(all[i].text) != std::string_view::npos) {
      word = {word.first, all[i].last, word.text + all[i].text};
      all[i].text.clear();
    } else {
      last = i;
    }
  }
  all.erase(std::remove_if(all.begin(), all.end(), is_empty), all.end());
}

}  // namespace

std::vector<size_t> token_ends(Attention attention) {
  standardize(&attention);
  const size_t tokens = attention.tokens, steps = attention.steps;
  std::vector<float> costs(tokens * steps);
  for (size_t head = 0; head < attention.heads; ++head) {
    for (size_t i = 0; i < tokens; ++i) {
      add_medians(&attention.weights[(head * tokens + i) * steps], steps, &costs[i * steps]);
    }
  }
  for (float& cost : costs) cost /= -static_cast<float>(attention.heads);
  return warped(costs, tokens, steps);
}

std::vector<WordTokens> words_of(const std::vector<std::string_view>& bytes, bool spaced) {
  constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::vector<WordTokens> words;
  for (WordTokens& one : characters_of(bytes)) {
    const bool begins = !spaced || begins_with_space(one.text) ||
                        kPunctuation.find(without_spaces(one.text)) != std::string_view::npos;
    if (begins || words.empty()) {
      words.push_back(std::move(one));
    } else {
      words.back().text += one.text;
      words.back().last = one.last;
    }
  }
  join_punctuation(&words);
  return words;
}

}  // namespace thimble
