#pragma once

#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/avx2/codes.h"
#include "kernels/kernels.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Up to four rows of a tile of kMr.
template <size_t kMr>
struct Rows {
  static constexpr size_t kCount = kMr < 4 ? kMr : 4;
  const int8_t* x;
  const int32_t* bias;        ///< by kColumnStep columns, kMr apart
  const float* group_scales;  ///< by groups, if they have scales, likewise

  /// Those of `rows` from `first` on, a multiple of kCount.
  Rows(const QuantizedRows& rows, size_t first)
      : x(rows.values + first / kMr * kMr * rows.columns + first % kMr * 4),
        bias(rows.group_bias + first / kMr * kMr * (rows.columns / kColumnStep) + first % kMr),
        group_scales(rows.group_size == 0
                         ? nullptr
                         : rows.group_scales +
                               first / kMr * kMr * (rows.columns / rows.group_size) + first % kMr) {
  }

  /// Four columns of row r, k a multiple of 4.
  [[gnu::always_inline]] int32_t four(size_t r, size_t k) const {
    int32_t bytes;
    std::memcpy(&bytes, x + k * kMr + r * 4, sizeof bytes);
    return bytes;
  }
};

/// How often a tile's rows pass over a block of codes.
template <size_t kMr>
constexpr size_t kPasses = kMr / Rows<kMr>::kCount;

constexpr size_t kFarBytes = 4096, kNearBytes = 512;  // of prefetches into each cache level

/// Where to prefetch from while a block is read in so many passes. Only the first pass would wait
/// for memory, so each pass prefetches its share of the next block.
/// \param lines the part of the block that is read, `bytes` of it.
template <size_t kOfPasses>
inline const uint8_t* prefetch_from(const uint8_t* lines, size_t block_bytes, size_t bytes,
                                    size_t pass) {
  return lines + block_bytes + pass * (bytes / kOfPasses);
}

/// For the `i`-th line from where `ahead` was taken. In a single pass: far ahead of the line
/// itself.
template <size_t kOfPasses>
[[gnu::always_inline]] inline void prefetch(const uint8_t* line, const uint8_t* ahead, size_t i) {
  const uint8_t* far = kOfPasses == 1 ? line + kFarBytes : ahead + i * kLineBytes / kOfPasses;
  _mm_prefetch(reinterpret_cast<const char*>(far), _MM_HINT_T1);
}

/// The kQuad-th codes of a step, of both halves of a block. Lines that come from memory are
/// prefetched.
template <typename Codes, size_t kQuad, size_t kMr>
[[gnu::always_inline]] inline void load_codes(const uint8_t* lines, const uint8_t* ahead,
                                              __m256i (&codes)[kHalves]) {
  if constexpr (Codes::kIsPacked && kQuad < Codes::kBits) {
    const uint8_t* line = lines + kQuad * kLineBytes;
    prefetch<kPasses<kMr>>(line, ahead, kQuad);
    _mm_prefetch(reinterpret_cast<const char*>(line + kNearBytes), _MM_HINT_T0);
  }
  unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
    codes[h] = Codes::template codes<kQuad>(lines + h * kHalfLine);
  });
}

/// Calls `run(kMr)`, an integral constant, with the tile's rows.
template <typename Run>
inline void with_tile(size_t mr, Run run) {
  switch (mr) {
    case 1:
      return run(std::integral_constant<size_t, 1>{});
    case 2:
      return run(std::integral_constant<size_t, 2>{});
    case 4:
      return run(std::integral_constant<size_t, 4>{});
    default:
      return run(std::integral_constant<size_t, kMatvecRows>{});
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
