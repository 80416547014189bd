#include "constraint/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kNotPlain = 0;
constexpr std::array<size_t, Vocabulary::kMostGroups> kGroups = {4, 8, 16, 32, ~size_t{0}};

/// The number of characters of a text that is plain.
size_t plain_characters(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    const auto byte = static_cast<uint8_t>(text.front());
    if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F) return kNotPlain;
    const Utf8Scan scan = scan_utf8(text);
    if (scan.kind != Utf8Kind::kWhole) return kNotPlain;
    text.remove_prefix(scan.length);
    ++count;
  }
  return count;
}

std::vector<std::string_view> texts_of(const Tokenizer& tokenizer) {
  std::vector<std::string_view> texts;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    texts.push_back(tokenizer.decoder().skips(id) ? "" : tokenizer.token_bytes(id));
  }
  return texts;
}

std::vector<TokenNames::Name> names_of(const Tokenizer& tokenizer) {
  std::vector<TokenNames::Name> names;
  for (const AddedToken& token : tokenizer.added_tokens()) {
    names.push_back({token.content, token.id});
  }
  return names;
}

}  // namespace

Vocabulary::Vocabulary(const Tokenizer& tokenizer, const std::vector<int32_t>& ends, size_t size)
    : Vocabulary(texts_of(tokenizer), ends, size, names_of(tokenizer)) {}

Vocabulary::Vocabulary(const std::vector<std::string_view>& texts, const std::vector<int32_t>& ends,
                       size_t size, const std::vector<TokenNames::Name>& names)
    : size_(size), names_(names, texts, ends, size), plain_(kMostCharacters + 1, TokenMask(size)) {
  for (const int32_t end : ends) {
    if (end >= 0 && static_cast<size_t>(end) < size) ends_.push_back(end);
  }
  struct Tokens {
    std::vector<TokenTrie::Token> plain, other;
    size_t most_bytes = 0, most_characters = 0;
  };
  std::array<Tokens, kGroups.size()> groups;
  for (const TokenTrie::Token& token : sorted(texts)) {
    const size_t bytes = token.first.size(), characters = plain_characters(token.first);
    const auto place = std::lower_bound(kGroups.begin(), kGroups.end(), bytes);
    Tokens& group = groups[static_cast<size_t>(place - kGroups.begin())];
    group.most_bytes = std::max(group.most_bytes, bytes);
    if (characters == kNotPlain || characters > kMostCharacters) {
      group.other.push_back(token);
    } else {
      group.plain.push_back(token);
      group.most_characters = std::max(group.most_characters, characters);
      plain_[characters].set(static_cast<size_t>(token.second));
    }
  }
  for (const Tokens& group : groups) {
    if (group.most_bytes == 0) continue;
    groups_.push_back({static_cast<uint32_t>(group.most_bytes), group.most_characters,
                       TokenTrie(group.plain), TokenTrie(group.other)});
  }
  for (size_t i = 1; i < plain_.size(); ++i) plain_[i].add(plain_[i - 1]);
}

/// All tokens by their bytes.
std::vector<TokenTrie::Token> Vocabulary::sorted(const std::vector<std::string_view>& texts) const {
  std::vector<TokenTrie::Token> tokens;
  tokens.reserve(texts.size());
  for (size_t i = 0; i < std::min(texts.size(), size_); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (is_of_text(texts[i]) && !names_.is_marked(id)) tokens.emplace_back(texts[i], id);
  }
  for (const auto& [id, token] : names_.tokens()) {
    if (names_.is_marked(id)) tokens.emplace_back(token.bytes, id);
  }
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

size_t Vocabulary::bytes() const {
  size_t bytes = plain_.size() * plain_[0].words().size() * sizeof(uint32_t);
  for (const Group& group : groups_) bytes += group.plain.bytes() + group.other.bytes();
  return bytes;
}

}  // namespace thimble
