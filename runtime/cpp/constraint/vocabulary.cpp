#include "constraint/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kNotPlain = 0;
constexpr std::array<size_t, 3> kGroups = {4, 10, 20};

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
    : size_(size), names_(names, texts, ends, size), other_({}) {
  for (const int32_t end : ends) {
    if (end >= 0 && static_cast<size_t>(end) < size) ends_.push_back(end);
  }
  std::vector<TokenTrie::Token> other;
  std::array<std::vector<TokenTrie::Token>, kGroups.size()> plain;
  std::array<size_t, kGroups.size()> most{};
  for (const TokenTrie::Token& token : sorted(texts)) {
    const size_t characters = plain_characters(token.first);
    const auto place = std::lower_bound(kGroups.begin(), kGroups.end(), characters);
    if (characters == kNotPlain || place == kGroups.end()) {  // few are so long
      other.push_back(token);
      continue;
    }
    const auto group = static_cast<size_t>(place - kGroups.begin());
    plain[group].push_back(token);
    most[group] = std::max(most[group], characters);
  }
  other_ = TokenTrie(other);
  for (size_t i = 0; i < kGroups.size(); ++i) {
    if (plain[i].empty()) continue;
    TokenMask mask(size);
    for (const TokenTrie::Token& token : plain[i]) mask.set(static_cast<size_t>(token.second));
    groups_.push_back({most[i], std::move(mask), TokenTrie(plain[i])});
  }
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
  size_t bytes = other_.bytes();
  for (const Group& group : groups_) {
    bytes += group.trie.bytes() + group.mask.words().size() * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace thimble
