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

/// Calls `run(line, position)` for every four positions of an int8 tile's values, whose kCount
/// lines from column d on follow each other.
template <size_t kCount, bool kFromMemory, typename Run>
[[gnu::always_inline]] inline void each_four(const Blocks<int8_t, kFromMemory>& values,
                                             size_t blocks, size_t d, size_t columns, Run run) {
  const size_t step = columns * kCacheFour;
  for (size_t b = 0; b < blocks; ++b) {
    const int8_t* line = values.block(b) + d * kCacheFour;
    const int8_t* ahead = values.block(b + kAttentionTile / kLanes) + d * kCacheFour;
    for (size_t p = 0; p < kLanes; p += kCacheFour, line += step) {
      if constexpr (kFromMemory) prefetch<kCount * kLineBytes>(ahead + p * columns);
      run(line, b * kLanes + p);
    }
  }
}

/// Keys or values of a cache from row `start` on, a multiple of 16.
template <typename Element>
Blocks<Element, kPrefetches> blocks_at(const void* cache, size_t start, size_t columns) {
  constexpr bool kIsInt8 = std::is_same_v<Element, int8_t>;
  constexpr CacheType kType = kIsInt8                          ? CacheType::kInt8
                              : std::is_same_v<Element, float> ? CacheType::kFloat32
                                                               : CacheType::kFloat16;
  const size_t bytes = cache_block_bytes(kType, columns);
  const uint8_t* first = static_cast<const uint8_t*>(cache) + start / kLanes * bytes;
  if constexpr (!kIsInt8) {
    return {reinterpret_cast<const Element*>(first), kLanes * columns, nullptr, 0};
  } else {
    return {reinterpret_cast<const Element*>(first + kLanes * sizeof(float)), bytes,
            reinterpret_cast<const float*>(first), bytes / sizeof(float)};
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
