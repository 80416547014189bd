#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field { kContent, kId, kSpecial, kNormalized, kLstrip, kRstrip, kSingleWord };

}  // namespace

Result<AddedTokens> AddedTokens::load(const FlatbufferTables& tables, int32_t vocab_size,
                                      const CodePointMap* word_characters) {
  AddedTokens added;
  if (word_characters != nullptr) added.word_characters_ = *word_characters;
  added.tokens_.reserve(tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    const FlatbufferTable table = tables[i];
    const AddedToken token = {table.string(kContent),
                              static_cast<int32_t>(table.scalar<uint32_t>(kId)),
                              table.scalar<uint8_t>(kSpecial) != 0,
                              table.scalar<uint8_t>(kNormalized) != 0,
                              table.scalar<uint8_t>(kLstrip) != 0,
                              table.scalar<uint8_t>(kRstrip) != 0,
                              table.scalar<uint8_t>(kSingleWord) != 0};
    if (token.content.empty() || token.id < 0 || token.id >= vocab_size) {
      return Status::error("an added token has no content or no place in the vocabulary");
    }
    if (token.single_word && word_characters == nullptr) {
      return Status::error("an added token asks for words, of which nothing is said");
    }
    if (!added.tokens_.empty()) {
      const AddedToken& last = added.tokens_.back();
      if (std::tie(last.normalized, last.content) >= std::tie(token.normalized, token.content)) {
        return Status::error("the added tokens are out of order");
      }
    }
    auto& begins = token.normalized ? added.begins_normalized_ : added.begins_raw_;
    begins[static_cast<uint8_t>(token.content[0])] = true;
    added.normalized_begin_ += token.normalized ? 0 : 1;
    added.tokens_.push_back(token);
  }
  return added;
}

std::vector<Stretch> AddedTokens::cut(std::string_view text, bool normalized,
                                      const std::vector<LiteralRange>& literal) const {
  const auto& begins = normalized ? begins_normalized_ : begins_raw_;
  const size_t first = normalized ? normalized_begin_ : 0;
  const size_t last = normalized ? tokens_.size() : normalized_begin_;
  std::vector<Stretch> stretches;
  size_t done = 0;
  auto range = literal.begin();
  for (size_t position = 0; position < text.size();) {
    const AddedToken* token = nullptr;
    if (begins[static_cast<uint8_t>(text[position])]) {
      token = longest_prefix(text.substr(position), first, last);
    }
    if (token == nullptr) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = position + token->content.size();
    position = end;
    if (token->special) {
      while (range != literal.end() && range->end < end) ++range;
      if (range == literal.end() || begin < range->begin) continue;
    }
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) begin = begin < done ? done : skip_white_space_back(text, done, begin);
    if (token->rstrip) end = skip_white_space(text, end);
    if (done < begin) stretches.push_back({done, begin, nullptr});
    if (begin < end) stretches.push_back({begin, end, token});  // else the last one took it
    done = end;
  }
  if (done < text.size()) stretches.push_back({done, text.size(), nullptr});
  return stretches;
}

bool AddedTokens::stands_alone(std::string_view text, size_t begin, size_t end) const {
  if (begin > 0) {
    size_t previous = begin - 1;
    while (previous > 0 && (static_cast<uint8_t>(text[previous]) & 0xC0) == 0x80) --previous;
    if (word_characters_[next_code_point(text, &previous)] != 0) return false;
  }
  return end >= text.size() || word_characters_[next_code_point(text, &end)] == 0;
}

int32_t AddedTokens::find(std::string_view content) const {
  for (const AddedToken& token : tokens_) {
    if (token.content == content) return token.id;
  }
  return -1;
}

std::string_view AddedTokens::content(int32_t id) const {
  for (const AddedToken& token : tokens_) {
    if (token.id == id) return token.content;
  }
  return {};
}

std::vector<std::string_view> AddedTokens::special() const {
  std::vector<AddedToken> special;
  std::copy_if(tokens_.begin(), tokens_.end(), std::back_inserter(special),
               [](const AddedToken& token) { return token.special; });
  std::sort(special.begin(), special.end(), [](const AddedToken& a, const AddedToken& b) {
    return std::tie(a.id, a.content) < std::tie(b.id, b.content);
  });
  std::vector<std::string_view> contents;
  for (const AddedToken& token : special) contents.push_back(token.content);
  return contents;
}

const AddedToken* AddedTokens::longest_prefix(std::string_view text, size_t begin,
                                              size_t end) const {
  const AddedToken* longest = nullptr;
  // [begin, end) are the tokens that share their first `length` bytes with `text`, sorted.
  for (size_t length = 0; begin < end; ++length) {
    if (tokens_[begin].content.size() == length) {
      longest = &tokens_[begin];
      if (++begin == end) break;
    }
    if (length == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[length]);
    const auto byte_of = [length](const AddedToken& token) {
      return static_cast<uint8_t>(token.content[length]);
    };
    const auto low =
        std::partition_point(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                             tokens_.begin() + static_cast<std::ptrdiff_t>(end),
                             [&](const AddedToken& token) { return byte_of(token) < byte; });
    const auto high =
        std::partition_point(low, tokens_.begin() + static_cast<std::ptrdiff_t>(end),
                             [&](const AddedToken& token) { return byte_of(token) == byte; });
    begin = static_cast<size_t>(low - tokens_.begin());
    end = static_cast<size_t>(high - tokens_.begin());
  }
  return longest;
}

}  // namespace thimble
