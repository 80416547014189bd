#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thimble {

/// U+FFFD, which replaces bytes that are not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// The kind of the first bytes of a text.
enum class Utf8Kind {
  kWhole,    ///< one character
  kCut,      ///< the beginning of one, which further bytes may complete
  kInvalid,  ///< neither, whatever follows
};

struct Utf8Scan {
  Utf8Kind kind;
  /// The number of bytes of the character, or of those that one replacement character replaces (the
  /// "maximal subpart" of the Unicode standard, section 3.9), at least 1.
  size_t length;
};

/// Classifies the beginning of `bytes`, which must not be empty.
Utf8Scan scan_utf8(std::string_view bytes);

/// The code point at `*position`, which must not be at the end of `text`; moves behind it. Reads
/// valid UTF-8; of what is not, some code points that are harmless.
inline uint32_t next_code_point(std::string_view text, size_t* position) {
  const auto byte = [&](size_t offset) {
    return static_cast<uint32_t>(static_cast<uint8_t>(text[*position + offset]));
  };
  const uint32_t first = byte(0);
  if (first < 0x80) {
    *position += 1;
    return first;
  }
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() - *position < length) {
    *position = text.size();
    return 0xFFFD;
  }
  uint32_t point = (first & (0x7F >> length)) << 6 | (byte(1) & 0x3F);
  for (size_t i = 2; i < length; ++i) point = point << 6 | (byte(i) & 0x3F);
  *position += length;
  return point < 0x110000 ? point : 0xFFFD;
}

/// Unicode's property White_Space.
bool is_white_space(uint32_t point);

/// Where the white space that begins at `position` ends.
size_t skip_white_space(std::string_view text, size_t position);

/// Where the white space that ends at `position` begins, `begin` at the earliest.
size_t skip_white_space_back(std::string_view text, size_t begin, size_t position);

/// Appends a code point, which must be below 0x110000.
void append_utf8(uint32_t point, std::string* text);

/// How many bytes at the beginning are UTF-8.
size_t valid_utf8_length(std::string_view bytes);

/// `bytes` with everything that is not UTF-8 replaced by U+FFFD.
std::string with_valid_utf8(std::string_view bytes);

}  // namespace thimble
