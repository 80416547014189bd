#pragma once

/// \file
/// Rows of attention on their way through the positions, a tile of them at a
/// time.

#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/activations.h"
#include "kernels/shared/cache.h"
#include "kernels/shared/exponential.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/unrolled.h"
#if defined(__wasm_simd128__)
#include "kernels/shared/products_wasm.h"
#endif

namespace thimble::kernels::THIMBLE_VARIANT {

inline F32x16 load_cached(const uint16_t* from) { return load_half(from); }
inline F32x16 load_cached(const float* from) { return load(from); }
inline F32x16 load_cached(const int8_t* from) { return load_int8(from); }

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
};

constexpr float kLog2OfE = 0x1.715476p+0f;

/// The state of a row, attention_state_size() floats: outputs not yet divided, lanes of the sum of
/// weights, and the maximum in every lane.
class RowState {
 public:
  RowState(float* floats, size_t head_dim)
      : floats_(floats), padded_dim_(round_up(head_dim, kLanes)) {}

  float* outputs() const { return floats_; }
  float* sums() const { return floats_ + padded_dim_; }
  float* largest() const { return sums() + kLanes; }

  void clear() const {
    for (float* lanes = floats_; lanes != largest(); lanes += kLanes) store(lanes, broadcast(0.0f));
    store(largest(), broadcast(-FLT_MAX));
  }

  /// Adds the state of positions that follow.
  void merge(const RowState& next) const {
    const F32x16 mine = load(largest()), other = load(next.largest());
    const F32x16 highest = max(other, mine);
    const F32x16 keep = exponential2(sub(mine, highest)), take = exponential2(sub(other, highest));
    for (size_t i = 0; i < padded_dim_ + kLanes; i += kLanes)
      store(floats_ + i, fused(load(next.floats_ + i), take, mul(load(floats_ + i), keep)));
    store(largest(), highest);
  }

  /// Adds a score, in units of log(2), without a value.
  void add_sink(float score) const {
    const F32x16 mine = load(largest()), other = broadcast(score);
    const F32x16 highest = max(other, mine);
    const F32x16 keep = exponential2(sub(mine, highest)), take = exponential2(sub(other, highest));
    for (size_t i = 0; i < padded_dim_ + kLanes; i += kLanes)
      store(floats_ + i, mul(load(floats_ + i), keep));
    alignas(kLineBytes) float weight[kLanes];
    store(weight, take);
    sums()[0] += weight[0];
    store(largest(), highest);
  }

 private:
  float* floats_;
  size_t padded_dim_;
};

/// kRows query rows, of which `count` are used. A row is a head of a token;
/// rows follow each other, heads first.
template <size_t kRows>
class RowGroup {
 public:
  /// \param query, states room for kRows rows' queries and states.
  /// \param weights room for kRows * kAttentionTile floats, shared by all
  /// groups.
  void start(const AttentionArgs& args, size_t first, size_t count, float* query, float* states,
             float* weights) {
    head_dim_ = args.head_dim;
    padded_dim_ = round_up(args.head_dim, kLanes);
    const float scale = args.scale * kLog2OfE;
    cap_ = args.soft_cap * kLog2OfE;
    query_ = query;
    states_ = states;
    weights_ = weights;
    for (size_t r = 0; r < kRows; ++r) {
      const size_t row = first + (r < count ? r : count - 1), token = row / args.heads;
      const float* q = args.q + token * args.q_stride + row % args.heads * args.head_dim;
      for (size_t d = 0; d < args.head_dim; ++d) query_[d * kRows + r] = q[d] * scale;
      first_[r] = attention_first(args.start_pos + token, args.window);
      visible_[r] = args.start_pos + token + 1;
    }
  }

  void start_split() {
    for (size_t r = 0; r < kRows; ++r) state(r).clear();
    for (float& largest : largest_) largest = -FLT_MAX;
  }

  /// Adds the tile of positions from `start` on, except the blocks that no row attends to.
  template <typename Tile>
  void add_tile(size_t start, const Tile& keys, const Tile& values) {
    const size_t first = first_[0], end = visible_[kRows - 1], tile_end = start + kAttentionTile;
    if (start >= end || first >= tile_end) return;
    const size_t unseen = first > start ? (first - start) / kLanes : 0;
    start += unseen * kLanes;
    const size_t positions = (end < tile_end ? end : tile_end) - start;
    score(keys.behind(unseen), divide_up(positions, kLanes));
    if (cap_ != 0) cap(divide_up(positions, kLanes));
    soften(start, divide_up(positions, kLanes), values.behind(unseen));
    mix(values.behind(unseen), positions);
  }

  void end_split() {
    for (size_t r = 0; r < kRows; ++r) store(state(r).largest(), broadcast(largest_[r]));
  }

  RowState state(size_t r) const {
    return {states_ + r * attention_state_size(head_dim_), head_dim_};
  }

 private:
  /// Vectors for which kRows rows have registers.
  [[maybe_unused]] static constexpr size_t kRoom = kAttentionRows * kAttentionVectors / kRows;
#if defined(__wasm_simd128__)
  static constexpr size_t kVectors = 1;  // of add_products()
#else
  static constexpr size_t kVectors = kRoom >= 4 ? 4 : kRoom >= 2 ? 2 : 1;
#endif

  /// Scores of `blocks` * 16 positions, in units of log(2).
  template <typename Tile>
  void score(const Tile& keys, size_t blocks) {
    size_t b = 0;
    for (; b + kVectors <= blocks; b += kVectors) score_blocks<kVectors>(keys, b);
    for (; b < blocks; ++b) score_blocks<1>(keys, b);
  }

  template <size_t kBlocks, typename Element, bool kFromMemory>
  void score_blocks(const Blocks<Element, kFromMemory>& keys, size_t first_block) {
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
      float* weights = weights_ + (first_block + b) * kLanes;
      if (keys.scales == nullptr) {
        unrolled<kRows>([&](auto r) { store(weights + r * kAttentionTile, acc[r][b]); });
      } else {
        const F32x16 scale = load(keys.scales + (first_block + b) * keys.scale_stride);
        unrolled<kRows>(
            [&](auto r) { store(weights + r * kAttentionTile, mul(acc[r][b], scale)); });
      }
    });
  }

  /// Applies cap * tanh(score / cap) to the scores of `blocks` * 16 positions.
  void cap(size_t blocks) {
    const F32x16 most = broadcast(cap_);
    for (size_t r = 0; r < kRows; ++r) {
      float* scores = weights_ + r * kAttentionTile;
      for (size_t i = 0; i < blocks * kLanes; i += kLanes)
        store(scores + i, mul(most, tanh(div(load(scores + i), most))));
    }
  }

  /// Turns scores into 2^(score - maximum), 0 where a row must not attend, times
  /// the values' scales.
  template <typename Tile>
  void soften(size_t start, size_t blocks, const Tile& values) {
    alignas(kLineBytes) float largest[kLanes] = {};
    const bool hides_first = first_[kRows - 1] > start;
    for (size_t r = 0; r < kRows; ++r) {
      float* weights = weights_ + r * kAttentionTile;
      for (size_t i = 0; hides_first && i < unseen(r, start, blocks); ++i) weights[i] = -FLT_MAX;
      for (size_t i = seen(r, start); i < blocks * kLanes; ++i) weights[i] = -FLT_MAX;
      F32x16 highest = broadcast(largest_[r]);
      for (size_t b = 0; b < blocks; ++b) highest = max(load(weights + b * kLanes), highest);
      largest[r] = lane_max(highest);
    }
    store(factor_, exponential2(sub(load(largest_), load(largest))));
    std::memcpy(largest_, largest, sizeof largest_);
    for (size_t r = 0; r < kRows; ++r) {
      float* weights = weights_ + r * kAttentionTile;
      const F32x16 highest = broadcast(largest[r]);
      F32x16 sum = mul(load(state(r).sums()), broadcast(factor_[r]));
      for (size_t b = 0; b < blocks; ++b) {
        const F32x16 weight = exponential2(sub(load(weights + b * kLanes), highest));
        store(weights + b * kLanes, weight);
        sum = add(sum, weight);
      }
      if (hides_first || seen(r, start) < blocks * kLanes) sum = hide(r, start, blocks);
      store(state(r).sums(), sum);
      if (values.scales != nullptr) {
        for (size_t b = 0; b < blocks; ++b) {
          const F32x16 scale = load(values.scales + b * values.scale_stride);
          store(weights + b * kLanes, mul(load(weights + b * kLanes), scale));
        }
      }
    }
  }

  /// Sets the weights that row r does not see to 0; returns the lanes of the sum of the others.
  F32x16 hide(size_t r, size_t start, size_t blocks) {
    float* weights = weights_ + r * kAttentionTile;
    for (size_t i = 0; i < unseen(r, start, blocks); ++i) weights[i] = 0;
    for (size_t i = seen(r, start); i < blocks * kLanes; ++i) weights[i] = 0;
    F32x16 sum = mul(load(state(r).sums()), broadcast(factor_[r]));
    for (size_t b = 0; b < blocks; ++b) sum = add(sum, load(weights + b * kLanes));
    return sum;
  }

  /// Positions from `start` on, in some blocks, before row r's window.
  size_t unseen(size_t r, size_t start, size_t blocks) const {
    if (first_[r] <= start) return 0;
    const size_t count = first_[r] - start;
    return count < blocks * kLanes ? count : blocks * kLanes;
  }

  /// Positions from `start` on that row r may attend to, if it sees the first.
  size_t seen(size_t r, size_t start) const {
    return visible_[r] > start ? visible_[r] - start : 0;
  }

  /// outputs = outputs * factor + weights . values
  template <typename Tile>
  void mix(const Tile& values, size_t positions) {
    size_t d = 0;
    for (; d + kVectors * kLanes <= padded_dim_; d += kVectors * kLanes)
      mix_vectors<kVectors>(values, positions, d);
    for (; d < padded_dim_; d += kLanes) mix_vectors<1>(values, positions, d);
  }

  template <size_t kCount, typename Element, bool kFromMemory>
  void mix_vectors(const Blocks<Element, kFromMemory>& values, size_t positions, size_t d) {
    float* outputs = states_ + d;
    const size_t stride = attention_state_size(head_dim_);
    F32x16 acc[kRows][kCount];
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) {
        acc[r][v] = mul(load(outputs + r * stride + v * kLanes), broadcast(factor_[r]));
      });
    });
    const float* weights = weights_;
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
  float* query_;    // [head_dim][kRows], scaled
  float* states_;   // [kRows]
  float* weights_;  // [kRows][kAttentionTile]
  size_t first_[kRows], visible_[kRows];
  float cap_;  // of scores, in units of log(2); 0: none
  float largest_[kLanes], factor_[kLanes];
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
