#pragma once

/// \file
/// The products of attention with a cache of floats: fused chains.

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"
#if defined(__wasm_simd128__)
#include "kernels/shared/products_wasm.h"
#endif

namespace thimble::kernels::THIMBLE_VARIANT {

inline F32x16 load_cached(const uint16_t* from) { return load_half(from); }
inline F32x16 load_cached(const float* from) { return load(from); }

/// The products of kRows rows.
template <size_t kRows>
class FloatProducts {
 public:
  /// \param query room for [head_dim][kRows].
  void start(size_t head_dim, float* query) {
    head_dim_ = head_dim;
    padded_dim_ = round_up(head_dim, kLanes);
    query_ = query;
  }

  /// Takes row r's query; its scores are products by `scale`.
  void take_query(size_t r, const float* q, float scale) {
    for (size_t d = 0; d < head_dim_; ++d) query_[d * kRows + r] = q[d] * scale;
  }

  /// Scores of `blocks` * 16 positions, row after row.
  template <typename Tile>
  void score(const Tile& keys, size_t blocks, float* scores) const {
    size_t b = 0;
    for (; b + kVectors <= blocks; b += kVectors) score_blocks<kVectors>(keys, b, scores);
    for (; b < blocks; ++b) score_blocks<1>(keys, b, scores);
  }

  /// outputs = outputs * factor + weights . values
  /// \param states of the rows, `stride` floats apart; they begin with outputs.
  template <typename Tile>
  void mix(const Tile& values, size_t positions, float* weights, const float* factor, float* states,
           size_t stride) const {
    size_t d = 0;
    for (; d + kVectors * kLanes <= padded_dim_; d += kVectors * kLanes)
      mix_vectors<kVectors>(values, positions, d, weights, factor, states + d, stride);
    for (; d < padded_dim_; d += kLanes)
      mix_vectors<1>(values, positions, d, weights, factor, states + d, stride);
  }

 private:
  /// Vectors for which kRows rows have registers.
  [[maybe_unused]] static constexpr size_t kRoom = kAttentionRows * kAttentionVectors / kRows;
#if defined(__wasm_simd128__)
  static constexpr size_t kVectors = 1;  // of add_products()
#else
  static constexpr size_t kVectors = kRoom >= 4 ? 4 : kRoom >= 2 ? 2 : 1;
#endif

  template <size_t kBlocks, typename Element, bool kFromMemory>
  void score_blocks(const Blocks<Element, kFromMemory>& keys, size_t first_block,
                    float* scores) const {
    F32x16 acc[kRows][kBlocks];
    unrolled<kRows>(
        [&](auto r) { unrolled<kBlocks>([&](auto b) { acc[r][b] = broadcast(0.0f); }); });
#if defined(__wasm_simd128__)
    F32x16 sums[kRows];
    unrolled<kRows>([&](auto r) { sums[r] = acc[r][0]; });
    add_products(query_, kRows, 1, keys.block(first_block), kLanes, head_dim_, sums);
    unrolled<kRows>([&](auto r) { acc[r][0] = sums[r]; });
#else
    const float* query = query_;
    const Element* block = keys.block(first_block);
    const Element* ahead = keys.block(first_block + kAttentionTile / kLanes);
    for (size_t d = 0; d < head_dim_; ++d, query += kRows, block += kLanes) {
      if constexpr (kFromMemory) {
        prefetch<kBlocks * kLanes>(ahead);
        ahead += kBlocks * kLanes;
      }
      F32x16 key[kBlocks];
      unrolled<kBlocks>(
          [&](auto b) [[gnu::always_inline]] { key[b] = load_cached(block + b * keys.stride); });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const F32x16 q = broadcast(query[r]);
        unrolled<kBlocks>([&](auto b)
                              [[gnu::always_inline]] { acc[r][b] = fused(q, key[b], acc[r][b]); });
      });
    }
#endif
    unrolled<kBlocks>([&](auto b) {
      float* to = scores + (first_block + b) * kLanes;
      unrolled<kRows>([&](auto r) { store(to + r * kAttentionTile, acc[r][b]); });
    });
  }

  template <size_t kCount, typename Element, bool kFromMemory>
  void mix_vectors(const Blocks<Element, kFromMemory>& values, size_t positions, size_t d,
                   const float* weights, const float* factor, float* outputs, size_t stride) const {
    F32x16 acc[kRows][kCount];
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) {
        acc[r][v] = mul(load(outputs + r * stride + v * kLanes), broadcast(factor[r]));
      });
    });
    for (size_t block = 0; positions > 0; ++block) {
      const Element* row = values.block(block) + d;
      const size_t count = positions < kLanes ? positions : kLanes;
      positions -= count;
#if defined(__wasm_simd128__)
      F32x16 sums[kRows];
      unrolled<kRows>([&](auto r) { sums[r] = acc[r][0]; });
      add_products(weights, 1, kAttentionTile, row, padded_dim_, count, sums);
      unrolled<kRows>([&](auto r) { acc[r][0] = sums[r]; });
      weights += count;
#else
      const Element* ahead = values.block(block + kAttentionTile / kLanes) + d;
      for (const float* end = weights + count; weights != end; ++weights, row += padded_dim_) {
        if constexpr (kFromMemory) {
          prefetch<kCount * kLanes>(ahead);
          ahead += padded_dim_;
        }
        F32x16 value[kCount];
        unrolled<kCount>([&](auto v)
                             [[gnu::always_inline]] { value[v] = load_cached(row + v * kLanes); });
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          const F32x16 weight = broadcast(weights[r * kAttentionTile]);
          unrolled<kCount>([&](auto v) [[gnu::always_inline]] {
            acc[r][v] = fused(weight, value[v], acc[r][v]);
          });
        });
      }
#endif
    }
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) { store(outputs + r * stride + v * kLanes, acc[r][v]); });
    });
  }

  size_t head_dim_, padded_dim_;
  float* query_;  // [head_dim][kRows], scaled
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
