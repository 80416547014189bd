#include "tokenizer/character_map.h"

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field { kBlocks, kKinds, kPoints, kEnds, kReplacements };

}  // namespace

Result<CharacterMap> CharacterMap::load(const FlatbufferTable& table) {
  Result<CodePointMap> kinds =
      CodePointMap::load(table.vector<uint16_t>(kBlocks), table.vector<uint8_t>(kKinds));
  if (!kinds.ok()) return kinds.status();
  CharacterMap map;
  map.kinds_ = *kinds;
  map.points_ = table.vector<uint32_t>(kPoints);
  map.replacements_ =
      TokenTexts(table.vector<uint32_t>(kEnds), table.vector<uint8_t>(kReplacements));
  return map;
}

bool CharacterMap::apply(std::string_view text, bool* keeps_first, std::string* out) const {
  size_t position = 0;
  size_t begin = 0;
  while (position < text.size()) {
    begin = position;
    if (kinds_[next_code_point(text, &position)] != kStays) break;
    begin = position;
  }
  if (begin == text.size()) return false;
  out->assign(text.substr(0, begin));
  for (position = begin; position < text.size();) {
    begin = position;
    const uint32_t point = next_code_point(text, &position);
    const std::string_view character = text.substr(begin, position - begin);
    const uint8_t kind = kinds_[point];
    if (kind == kReplaced) {
      const std::string_view mapped = replacements_[find_sorted(points_, point)];
      if (begin == 0 && mapped.empty()) *keeps_first = false;
      out->append(mapped);
    } else if (kind == kBetweenSpaces) {
      out->append(" ").append(character).append(" ");
    } else {
      out->append(character);
    }
  }
  return true;
}

}  // namespace thimble
