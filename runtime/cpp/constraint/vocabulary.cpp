#include "constraint/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

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

}  // namespace

struct Vocabulary::Parts {
  std::vector<TokenTrie::Token> other;
  std::array<std::vector<TokenTrie::Token>, kGroups.size()> groups;
  std::array<size_t, kGroups.size()> most{};
};

Vocabulary::Parts Vocabulary::divide(const std::vector<std::string_view>& texts,
                                     const std::vector<int32_t>& ends, size_t size) {
  std::vector<TokenTrie::Token> tokens;
  tokens.reserve(texts.size());
  for (size_t id = 0; id < std::min(texts.size(), size); ++id) {
    if (!texts[id].empty()) tokens.emplace_back(texts[id], static_cast<int32_t>(id));
  }
  const auto is_end = [&ends](const TokenTrie::Token& token) {
    return std::find(ends.begin(), ends.end(), token.second) != ends.end();
  };
  tokens.erase(std::remove_if(tokens.begin(), tokens.end(), is_end), tokens.end());
  std::sort(tokens.begin(), tokens.end());
  Parts parts;
  for (const TokenTrie::Token& token : tokens) {
    const size_t characters = plain_characters(token.first);
    if (characters == kNotPlain) {
      parts.other.push_back(token);
      continue;
    }
    const auto place = std::lower_bound(kGroups.begin(), kGroups.end(), characters);
    if (place == kGroups.end()) {
      parts.other.push_back(token);  // few are so long
      continue;
    }
    const auto group = static_cast<size_t>(place - kGroups.begin());
    parts.groups[group].push_back(token);
    parts.most[group] = std::max(parts.most[group], characters);
  }
  return parts;
}

Vocabulary::Vocabulary(const std::vector<std::string_view>& texts, const std::vector<int32_t>& ends,
                       size_t size)
    : Vocabulary(divide(texts, ends, size), ends, size) {}

Vocabulary::Vocabulary(Parts parts, const std::vector<int32_t>& ends, size_t size)
    : size_(size), other_(parts.other) {
  for (const int32_t end : ends) {
    if (end >= 0 && static_cast<size_t>(end) < size) ends_.push_back(end);
  }
  for (size_t i = 0; i < kGroups.size(); ++i) {
    if (parts.groups[i].empty()) continue;
    TokenMask mask(size);
    for (const TokenTrie::Token& token : parts.groups[i]) {
      mask.set(static_cast<size_t>(token.second));
    }
    groups_.push_back({parts.most[i], std::move(mask), TokenTrie(parts.groups[i])});
  }
}

size_t Vocabulary::bytes() const {
  size_t bytes = other_.bytes();
  for (const Group& group : groups_) {
    bytes += group.trie.bytes() + group.mask.words().size() * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace thimble
