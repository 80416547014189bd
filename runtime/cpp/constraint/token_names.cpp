#include "constraint/token_names.h"

#include <algorithm>

namespace thimble {
namespace {

constexpr uint32_t kDigitBits = 6, kDigit = 0x80;  // digits are bytes that no text begins with

}  // namespace

std::string token_mark(int32_t id) {
  std::string mark(kMarkSize, kMarkByte);
  for (size_t i = 1; i < kMarkSize; ++i) {
    const auto shift = static_cast<uint32_t>(kMarkSize - 1 - i) * kDigitBits;
    const uint32_t digit = static_cast<uint32_t>(id) >> shift & ((1U << kDigitBits) - 1);
    mark[i] = static_cast<char>(kDigit | digit);
  }
  return mark;
}

int32_t marked_token(std::string_view bytes) {
  if (bytes.size() < kMarkSize || bytes.front() != kMarkByte) return -1;
  uint32_t id = 0;
  for (const char c : bytes.substr(1, kMarkSize - 1)) {
    id = id << kDigitBits | (static_cast<uint8_t>(c) & ~kDigit);
  }
  return static_cast<int32_t>(id);
}

TokenNames::TokenNames(const std::vector<Name>& names, const std::vector<std::string_view>& texts,
                       const std::vector<int32_t>& ends, size_t size)
    : marked_(size) {
  const auto add = [&](int32_t id, std::string_view name) {
    if (id < 0 || static_cast<size_t>(id) >= size) return;
    const auto index = static_cast<size_t>(id);
    const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
    const bool is_text = !is_end && index < texts.size() && is_of_text(texts[index]);
    if (!is_text) marked_.set(index);
    tokens_.try_emplace(
        id, Token{std::string(name), is_text ? std::string(texts[index]) : token_mark(id)});
    if (!name.empty()) ids_.try_emplace(std::string(name), id);
  };
  for (const Name& name : names) add(name.id, name.name);
  for (const int32_t end : ends) add(end, {});
}

const TokenNames::Token* TokenNames::find(int32_t id) const {
  const auto place = tokens_.find(id);
  return place == tokens_.end() ? nullptr : &place->second;
}

const TokenNames::Token* TokenNames::find(std::string_view name) const {
  const auto place = ids_.find(name);
  return place == ids_.end() ? nullptr : find(place->second);
}

}  // namespace thimble
