#pragma once

/// \file
/// Keys and values of a tile of positions, as attention reads them.

#include <type_traits>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/cache.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Whether prefetching has an effect.
#if defined(__wasm_simd128__)
constexpr bool kPrefetches = false;
#else
constexpr bool kPrefetches = true;
#endif

/// Prefetches the cache lines of kCount elements.
template <size_t kCount, typename Element>
[[gnu::always_inline]] inline void prefetch(const Element* from) {
  for (size_t i = 0; i < kCount; i += kLineBytes / sizeof(Element)) __builtin_prefetch(from + i);
}

/// Keys or values of a tile, in blocks of 16 positions. Those that come from memory are read once,
/// and the next tile's are prefetched in between.
template <typename Element, bool kFromMemory>
struct Blocks {
  const Element* first;
  size_t stride;        ///< from one block to the next, in elements
  const float* scales;  ///< of the first block's positions, or null
  size_t scale_stride;  ///< in floats

  const Element* block(size_t i) const { return first + i * stride; }
  /// Returns the tile without the first `count`.
  Blocks behind(size_t count) const {
    return {first + count * stride, stride,
            scales == nullptr ? nullptr : scales + count * scale_stride, scale_stride};
  }
  /// Returns the same tile, once it was read.
  Blocks<Element, false> again() const { return {first, stride, scales, scale_stride}; }
};

/// What keys or values of a type are read as: of int4 two in a byte.
template <CacheType kType>
using Element = std::conditional_t<
    kType == CacheType::kFloat16, uint16_t,
    std::conditional_t<kType == CacheType::kFloat32, float,
                       std::conditional_t<kType == CacheType::kInt8, int8_t, uint8_t>>>;

/// Calls `run(line, position)` for every four positions of an integer tile's values, whose lines
/// from the one with column d on follow each other; of int8 they have kCount columns of 16.
template <size_t kCount, typename Byte, bool kFromMemory, typename Run>
[[gnu::always_inline]] inline void each_four(const Blocks<Byte, kFromMemory>& values, size_t blocks,
                                             size_t d, size_t columns, Run run) {
  constexpr size_t kLineColumns = std::is_same_v<Byte, int8_t> ? kLanes : 2 * kLanes;
  constexpr size_t kLines = divide_up(kCount * kLanes, kLineColumns);
  const size_t step = columns / kLineColumns * kLineBytes, from = d / kLineColumns * kLineBytes;
  for (size_t b = 0; b < blocks; ++b) {
    const Byte* line = values.block(b) + from;
    const Byte* ahead = values.block(b + kAttentionTile / kLanes) + from;
    for (size_t p = 0; p < kLanes; p += kCacheFour, line += step, ahead += step) {
      if constexpr (kFromMemory) prefetch<kLines * kLineBytes>(ahead);
      run(line, b * kLanes + p);
    }
  }
}

/// Keys or values of a cache from row `start` on, a multiple of 16.
template <CacheType kType>
Blocks<Element<kType>, kPrefetches> blocks_at(const void* cache, size_t start, size_t columns) {
  const size_t bytes = cache_block_bytes(kType, columns);
  const uint8_t* first = static_cast<const uint8_t*>(cache) + start / kLanes * bytes;
  if constexpr (!has_cache_scales(kType)) {
    return {reinterpret_cast<const Element<kType>*>(first), kLanes * columns, nullptr, 0};
  } else {
    return {reinterpret_cast<const Element<kType>*>(first + kLanes * sizeof(float)), bytes,
            reinterpret_cast<const float*>(first), bytes / sizeof(float)};
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
