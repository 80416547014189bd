#pragma once

#include <cstdint>

namespace thimble {

/// Colors as Pillow computes them, to the bit.

/// a / 255, rounded.
constexpr uint32_t by_255(uint32_t a) { return ((a >> 8) + a) >> 8; }

/// A color of a pixel that covers white by alpha / 255.
constexpr uint8_t over_white(uint32_t color, uint32_t alpha) {
  constexpr uint32_t kBits = 7;
  const uint32_t sum = (color * alpha + 255 * (255 - alpha)) << kBits;
  return static_cast<uint8_t>(by_255(sum + (0x80u << kBits)) >> kBits);
}

/// What is left of white behind an ink and black.
constexpr uint8_t without_ink(uint32_t ink, uint32_t black) {
  const uint32_t white = 255 - black;
  return static_cast<uint8_t>(white - by_255(ink * white + 128));
}

}  // namespace thimble
