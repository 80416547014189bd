#pragma once

/// \file
/// The codes of a block's weights, 8 weight rows by 4 columns at a time.

#include <immintrin.h>

#include "kernels/layout/layout.h"
#include "kernels/shared/nibble_table.h"
#include "kernels/shared/unrolled.h"
#include "kernels/shared/vectors_avx2.h"

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr size_t kHalves = 2, kHalfLine = kLineBytes / kHalves;  // 8 weight rows each

/// Looks nibbles up in drops_by_nibble().
template <size_t kBits, size_t kHalf, size_t kFirst>
[[gnu::always_inline]] inline __m256i drops_of(__m256i nibbles) {
  constexpr NibbleTable kTable = drops_by_nibble(kBits, kHalf, kFirst);
  const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(kTable.bytes));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
}

/// The codes, as drop_of() each, of 8 weight rows by columns 4 * kQuad .. + 3 of kColumnStep, as
/// they are packed,
template <size_t kOfBits>
struct Packed {
  static constexpr size_t kBits = kOfBits, kStepBytes = step_bytes(kBits);
  static constexpr bool kIsPacked = true;

  /// \param half where a half of the step's first line is.
  template <size_t kQuad>
  [[gnu::always_inline]] static __m256i codes(const uint8_t* half) {
    if constexpr (kBits < 4) return drops<kQuad>(half);
    const __m256i bytes = _mm256_load_si256(as_vector(half + kQuad / 2 * kLineBytes));
    const __m256i nibbles = _mm256_and_si256(kQuad % 2 == 0 ? bytes : _mm256_srli_epi16(bytes, 4),
                                             _mm256_set1_epi8(15));
    if constexpr (kBits <= 4) {
      return nibbles;
    } else {
      constexpr size_t kAt = kQuad * (kBits - 4), kMask = (1 << kBits) - 16;
      __m256i upper = _mm256_load_si256(as_vector(half + (4 + kAt / 8) * kLineBytes));
      if constexpr (kAt % 8 < 4) upper = _mm256_slli_epi16(upper, 4 - kAt % 8);
      if constexpr (kAt % 8 > 4) upper = _mm256_srli_epi16(upper, kAt % 8 - 4);
      return _mm256_or_si256(nibbles, _mm256_and_si256(upper, _mm256_set1_epi8(kMask)));
    }
  }

 private:
  /// Of 2 or 3 bits: a nibble has the low bits of two codes.
  template <size_t kQuad>
  [[gnu::always_inline]] static __m256i drops(const uint8_t* half) {
    const __m256i bytes = _mm256_load_si256(as_vector(half + kQuad / 4 * kLineBytes));
    const __m256i nibbles =
        _mm256_and_si256(kQuad % 4 < 2 ? bytes : _mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
    const __m256i drops = drops_of<kBits, kQuad % 2, 0>(nibbles);
    if constexpr (kBits == 2) return drops;
    const __m256i upper = _mm256_load_si256(as_vector(half + 2 * kLineBytes));
    return _mm256_blendv_epi8(drops, drops_of<kBits, kQuad % 2, kBits == 3 ? 4 : 0>(nibbles),
                              _mm256_slli_epi16(upper, 7 - kQuad));
  }
};

/// or as bytes [columns / 4][16][4].
template <size_t kOfBits>
struct Unpacked {
  static constexpr size_t kBits = kOfBits, kStepBytes = kColumnStep * kBlockRows;
  static constexpr bool kIsPacked = false;

  template <size_t kQuad>
  [[gnu::always_inline]] static __m256i codes(const uint8_t* half) {
    return _mm256_load_si256(as_vector(half + kQuad * kLineBytes));
  }
};

template <size_t kBits>
void unpack(const uint8_t* lines, size_t columns, uint8_t* out) {
  for (size_t k = 0; k < columns; k += kColumnStep, lines += step_bytes(kBits))
    unrolled<kColumnStep / 4>([&](auto quad) [[gnu::always_inline]] {
      for (size_t half = 0; half < kLineBytes; half += kHalfLine, out += kHalfLine)
        _mm256_store_si256(as_vector(out), Packed<kBits>::template codes<quad>(lines + half));
    });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
