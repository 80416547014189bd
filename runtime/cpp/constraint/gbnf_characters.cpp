#include "constraint/gbnf_characters.h"

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

char peek(std::string_view text, size_t at) { return at < text.size() ? text[at] : '\0'; }

std::string next_hex(std::string_view text, int count, size_t* at, uint32_t* point) {
  *point = 0;
  for (int i = 0; i < count; ++i, ++*at) {
    const char c = peek(text, *at), lower = static_cast<char>(c | 0x20);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (lower < 'a' || lower > 'f')) return "a hexadecimal digit is missing";
    *point = *point << 4 | static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  }
  if (*point < 0x110000 && (*point < 0xD800 || *point >= 0xE000)) return "";
  return "an escape is no character";
}

}  // namespace

std::string next_gbnf_character(std::string_view text, size_t* at, uint32_t* point) {
  if (peek(text, *at) != '\\') {
    *point = next_code_point(text, at);
    return "";
  }
  ++*at;
  const char c = peek(text, *at);
  ++*at;
  switch (c) {
    case 'x':
      return next_hex(text, 2, at, point);
    case 'u':
      return next_hex(text, 4, at, point);
    case 'U':
      return next_hex(text, 8, at, point);
    case 't':
      *point = '\t';
      return "";
    case 'r':
      *point = '\r';
      return "";
    case 'n':
      *point = '\n';
      return "";
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
      *point = static_cast<uint32_t>(c);
      return "";
    default:
      *at -= 2;
      return "a backslash is followed by no escape";
  }
}

}  // namespace thimble
