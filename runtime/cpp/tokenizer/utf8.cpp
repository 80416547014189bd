#include "tokenizer/utf8.h"

namespace thimble {
namespace {

// The bytes that may follow a lead byte (Unicode standard, table 3-7): how many bytes, and the
// second's range.
struct Continuation {
  size_t count;
  uint8_t low;
  uint8_t high;
};

Continuation continuation_of(uint8_t lead) {
  if (lead < 0x80) return {0, 0, 0};
  if (lead < 0xC2) return {0, 1, 0};
  if (lead < 0xE0) return {1, 0x80, 0xBF};
  if (lead == 0xE0) return {2, 0xA0, 0xBF};
  if (lead == 0xED) return {2, 0x80, 0x9F};
  if (lead < 0xF0) return {2, 0x80, 0xBF};
  if (lead == 0xF0) return {3, 0x90, 0xBF};
  if (lead < 0xF4) return {3, 0x80, 0xBF};
  if (lead == 0xF4) return {3, 0x80, 0x8F};
  return {0, 1, 0};
}

}  // namespace

Utf8Scan scan_utf8(std::string_view bytes) {
  Continuation expected = continuation_of(static_cast<uint8_t>(bytes[0]));
  if (expected.low > expected.high) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i <= expected.count; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kCut, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (byte < expected.low || byte > expected.high) return {Utf8Kind::kInvalid, i};
    expected.low = 0x80;
    expected.high = 0xBF;
  }
  return {Utf8Kind::kWhole, expected.count + 1};
}

bool is_white_space(uint32_t point) {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

size_t skip_white_space(std::string_view text, size_t position) {
  while (position < text.size()) {
    size_t next = position;
    if (!is_white_space(next_code_point(text, &next))) break;
    position = next;
  }
  return position;
}

size_t skip_white_space_back(std::string_view text, size_t begin, size_t position) {
  while (position > begin) {
    size_t previous = position - 1;
    while (previous > begin && (static_cast<uint8_t>(text[previous]) & 0xC0) == 0x80) --previous;
    size_t next = previous;
    if (!is_white_space(next_code_point(text, &next))) break;
    position = previous;
  }
  return position;
}

void append_utf8(uint32_t point, std::string* text) {
  const auto put = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

size_t valid_utf8_length(std::string_view bytes) {
  size_t length = 0;
  while (length < bytes.size()) {
    const Utf8Scan scan = scan_utf8(bytes.substr(length));
    if (scan.kind != Utf8Kind::kWhole) break;
    length += scan.length;
  }
  return length;
}

std::string with_valid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Scan scan = scan_utf8(bytes);
    text += scan.kind == Utf8Kind::kWhole ? bytes.substr(0, scan.length) : kReplacementCharacter;
    bytes.remove_prefix(scan.length);
  }
  return text;
}

}  // namespace thimble
