#include "tokenizer/charsmap.h"

#include <cstring>

#include "tokenizer/graphemes.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field { kUnits, kTexts, kKept, kGraphemeBreaks, kGraphemeClasses };

// darts-clone's units: a label in the low 8 bits and bit 31, whether a value follows in bit 8, and
// an offset in bits 10 to 30 that bit 9 scales; a value has bit 31 set.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & (1u << 9)) >> 6); }

// The longest grapheme cluster, in bytes, that is looked for as a whole.
constexpr size_t kLongestCluster = 5;

}  // namespace

Result<Charsmap> Charsmap::load(const FlatbufferTable& table) {
  Charsmap charsmap;
  charsmap.units_ = table.vector<uint32_t>(kUnits);
  charsmap.texts_ = table.vector<uint8_t>(kTexts);
  charsmap.kept_ = Trie(table.table(kKept));
  charsmap.by_graphemes_ = table.has(kGraphemeBreaks);
  if (charsmap.by_graphemes_) {
    Result<CodePointMap> classes = CodePointMap::load(table.vector<uint16_t>(kGraphemeBreaks),
                                                      table.vector<uint8_t>(kGraphemeClasses));
    if (!classes.ok()) return classes.status();
    charsmap.classes_ = *classes;
  }
  return charsmap;
}

Charsmap::Match Charsmap::match(std::string_view text, bool longest) const {
  Match longest_match{0, 0};
  if (units_.empty()) return longest_match;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if (label_of(unit) != byte) break;
    node ^= offset_of(unit);
    if (has_leaf(unit) && node < units_.size()) {
      longest_match = {i + 1, value_of(units_[node])};
      if (!longest) break;
    }
  }
  return longest_match;
}

std::string_view Charsmap::replacement(uint32_t value) const {
  if (value >= texts_.size()) return {};
  const auto* text = reinterpret_cast<const char*>(texts_.bytes()) + value;
  const void* end = std::memchr(text, 0, texts_.size() - value);
  if (end == nullptr) return {};
  return {text, static_cast<size_t>(static_cast<const char*>(end) - text)};
}

std::string Charsmap::normalize_graphemes(std::string_view text) const {
  std::string normalized;
  normalized.reserve(text.size());
  while (!text.empty()) {
    const std::string_view cluster = text.substr(0, grapheme_length(text, classes_));
    text.remove_prefix(cluster.size());
    if (cluster.size() <= kLongestCluster) {
      const Match whole = match(cluster, /*longest=*/false);
      if (whole.length > 0) {
        normalized += replacement(whole.value);
        continue;
      }
    }
    for (size_t position = 0; position < cluster.size();) {
      const size_t begin = position;
      next_code_point(cluster, &position);
      const std::string_view character = cluster.substr(begin, position - begin);
      const Match part = match(character, /*longest=*/false);
      normalized += part.length > 0 ? replacement(part.value) : character;
    }
  }
  return normalized;
}

std::string Charsmap::normalize_longest(std::string_view text) const {
  std::string normalized;
  normalized.reserve(text.size());
  while (!text.empty()) {
    size_t length = kept_.longest(text);
    const Match mapping = length > 0 ? Match{0, 0} : match(text, /*longest=*/true);
    if (mapping.length > 0) {
      length = mapping.length;
      normalized += replacement(mapping.value);
    } else {
      if (length == 0) next_code_point(text, &length);
      normalized += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return normalized;
}

}  // namespace thimble
