#pragma once

/// \file
/// The codes of weights with two levels of scales: kColumnStep columns of a block, by halves of the
/// nibbles' lines.

#include <immintrin.h>

#include "kernels/layout/layout.h"
#include "kernels/shared/nibble_table.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Of 5 or 6 bits.
template <size_t kBits>
class Codes {
 public:
  static constexpr int kHighShift = 0;

  explicit Codes(const uint8_t* step) : step_(step) {
    unrolled<kBits - 4>([&](auto i) [[gnu::always_inline]] {
      upper_[i] = _mm512_load_si512(step + (4 + i) * kLineBytes);
    });
  }
  /// Of 16 rows by 4 columns, those of the low nibbles of a line.
  template <size_t kLine>
  [[gnu::always_inline]] __m512i low() const {
    return with_upper<2 * kLine>(_mm512_load_si512(step_ + kLine * kLineBytes));
  }
  /// The next 4 columns, times 1 << kHighShift.
  template <size_t kLine>
  [[gnu::always_inline]] __m512i high() const {
    const __m512i bytes = _mm512_load_si512(step_ + kLine * kLineBytes);
    return with_upper<2 * kLine + 1>(_mm512_srli_epi16(bytes, 4));
  }

 private:
  /// The low nibbles of `bytes`, and the upper bits of columns 4 * kQuad .. + 3.
  template <size_t kQuad>
  [[gnu::always_inline]] __m512i with_upper(__m512i bytes) const {
    constexpr size_t kAt = kQuad * (kBits - 4);
    __m512i upper = upper_[kAt / 8];
    if constexpr (kAt % 8 < 4) upper = _mm512_slli_epi16(upper, 4 - kAt % 8);
    if constexpr (kAt % 8 > 4) upper = _mm512_srli_epi16(upper, kAt % 8 - 4);
    const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), bytes, upper, 0xCA);
    return _mm512_and_si512(both, _mm512_set1_epi8((1 << kBits) - 1));
  }

  const uint8_t* step_;
  __m512i upper_[kBits - 4];
};

/// Of 2 or 3 bits, each as its drop_of(): a nibble has the low bits of two codes, and so each half
/// of it finds its own by a table.
template <size_t kBits>
class ShortCodes {
 public:
  static constexpr int kHighShift = 0;

  explicit ShortCodes(const uint8_t* step) : step_(step) {}
  template <size_t kLine>
  [[gnu::always_inline]] __m512i low() const {
    return drops<2 * kLine>();
  }
  template <size_t kLine>
  [[gnu::always_inline]] __m512i high() const {
    return drops<2 * kLine + 1>();
  }

 private:
  /// Of columns 4 * kQuad .. + 3.
  template <size_t kQuad>
  [[gnu::always_inline]] __m512i drops() const {
    const __m512i bytes = _mm512_load_si512(step_ + kQuad / 4 * kLineBytes);
    const __m512i nibbles =
        _mm512_and_si512(kQuad % 4 < 2 ? bytes : _mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15));
    const __m512i drops = _mm512_shuffle_epi8(table<kQuad % 2, 0>(), nibbles);
    if constexpr (kBits == 2) return drops;
    const __m512i upper = _mm512_load_si512(step_ + 2 * kLineBytes);
    const __mmask64 is_upper = _mm512_test_epi8_mask(upper, _mm512_set1_epi8(1 << kQuad));
    return _mm512_mask_shuffle_epi8(drops, is_upper, table<kQuad % 2, kBits == 3 ? 4 : 0>(),
                                    nibbles);
  }
  template <size_t kHalf, size_t kFirst>
  [[gnu::always_inline]] static __m512i table() {
    constexpr NibbleTable kTable = drops_by_nibble(kBits, kHalf, kFirst);
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable.bytes)));
  }

  const uint8_t* step_;
};
template <>
class Codes<2> : public ShortCodes<2> {
  using ShortCodes<2>::ShortCodes;
};
template <>
class Codes<3> : public ShortCodes<3> {
  using ShortCodes<3>::ShortCodes;
};

/// Of 4 bits: high nibbles stay in place.
template <>
class Codes<4> {
 public:
  static constexpr int kHighShift = 4;

  explicit Codes(const uint8_t* step) : step_(step) {}
  template <size_t kLine>
  [[gnu::always_inline]] __m512i low() const {
    return _mm512_and_si512(_mm512_load_si512(step_ + kLine * kLineBytes), _mm512_set1_epi8(15));
  }
  template <size_t kLine>
  [[gnu::always_inline]] __m512i high() const {
    return _mm512_and_si512(_mm512_load_si512(step_ + kLine * kLineBytes), _mm512_set1_epi8(-16));
  }

 private:
  const uint8_t* step_;
};

/// Unpacks codes of a group: value * multiple = largest value * multiple - drop * multiple. The
/// last product fits a byte, so that two bytes multiply as one 16-bit number, the high nibbles of 4
/// bits in place.
template <size_t kBits>
class GroupFactors {
 public:
  /// \param multiples the group's, in the low bits of 32.
  explicit GroupFactors(__m512i multiples) {
    const __m512i single = _mm512_and_si512(multiples, _mm512_set1_epi32(15));
    words_ = _mm512_or_si512(single, _mm512_slli_epi32(single, 16));
    // A nibble in place is 16 times too large; times 4096, the surplus vanishes modulo 65536.
    high_words_ = _mm512_slli_epi16(words_, 12);
    const __m512i bytes = _mm512_or_si512(words_, _mm512_slli_epi16(words_, 8));
    largest_ = kBits == 3
                   ? _mm512_slli_epi32(bytes, 3)
                   : _mm512_sub_epi8(_mm512_slli_epi32(bytes, kBits == 2 ? 3 : kBits - 1), bytes);
    static_assert(largest_value(3) == 8 && largest_value(2) == 7);
  }
  /// Adds a number to what is unpacked.
  void add(int8_t number) { largest_ = _mm512_add_epi8(largest_, _mm512_set1_epi8(number)); }

  /// Of the columns of the low nibbles of a line, and of the next.
  template <size_t kLine>
  [[gnu::always_inline]] __m512i low(const Codes<kBits>& codes) const {
    return _mm512_sub_epi8(largest_, _mm512_mullo_epi16(codes.template low<kLine>(), words_));
  }
  template <size_t kLine>
  [[gnu::always_inline]] __m512i high(const Codes<kBits>& codes) const {
    const __m512i high = codes.template high<kLine>();
    return _mm512_sub_epi8(largest_, Codes<kBits>::kHighShift == 4
                                         ? _mm512_mulhi_epu16(high, high_words_)
                                         : _mm512_mullo_epi16(high, words_));
  }

 private:
  __m512i words_, high_words_, largest_;
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
