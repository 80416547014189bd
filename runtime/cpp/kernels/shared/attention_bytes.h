#pragma once

/// \file
/// The products of attention with a cache of int8 or int4: integers, which every order of sums
/// gives alike.

#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"
#include "kernels/shared/symmetric.h"
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
#include "kernels/shared/attention_fours.h"
#else
#include "kernels/shared/attention_pairs.h"
#endif

namespace thimble::kernels::THIMBLE_VARIANT {

/// The products of kRows rows with keys and values of such types.
template <size_t kRows, CacheType kKeys, CacheType kValues>
class ByteProducts {
  using KeyProducts = IntegerProducts<kKeys == CacheType::kInt4>;
  using ValueProducts = IntegerProducts<kValues == CacheType::kInt4>;
  template <bool kFromMemory>
  using Keys = Blocks<Element<kKeys>, kFromMemory>;
  template <bool kFromMemory>
  using Values = Blocks<Element<kValues>, kFromMemory>;

 public:
  /// \param query room for [head_dim][kRows] floats.
  void start(size_t head_dim, float* query) {
    head_dim_ = head_dim;
    lines_ = divide_up(head_dim, KeyProducts::kColumns);
    padded_dim_ = round_up(head_dim, kLanes);
    columns_ = cache_value_columns(kValues, head_dim);
    query_ = reinterpret_cast<int8_t*>(query);
  }

  /// Takes row r's query, as int8; its scores are products by `scale`.
  void take_query(size_t r, const float* q, float scale) {
    int32_t sum = 0;
    const float step =
        quantize_symmetric(q, head_dim_, [&](size_t d, size_t count, const int8_t* lanes) {
          for (size_t i = 0; i < count; i += KeyProducts::kColumns) {
            const size_t at = (d + i) / KeyProducts::kColumns * kRows + r;
            KeyProducts::put_query(lanes + i, query_ + at * kQueryBytes);
          }
          for (size_t i = 0; i < kLanes; ++i) sum += lanes[i];
        });
    query_scale_[r] = step * scale;
    query_sum_[r] = sum;
  }

  /// Scores of `blocks` * 16 positions, row after row.
  template <bool kFromMemory>
  void score(const Keys<kFromMemory>& keys, size_t blocks, float* scores) const {
    for (size_t row = 0; row < kRows; row += kTogether) {
      size_t b = 0;
      for (; b + kVectors <= blocks; b += kVectors) score_blocks<kVectors>(keys, b, row, scores);
      for (; b < blocks; ++b) score_blocks<1>(keys, b, row, scores);
    }
  }

  /// outputs = outputs * factor + weights . values; the weights are lost.
  template <bool kFromMemory>
  void mix(const Values<kFromMemory>& values, size_t positions, float* weights, const float* factor,
           float* states, size_t stride) const {
    typename ValueProducts::Weights integers[kRows];
    float steps[kLanes];
    int32_t sums[kRows] = {};
    const size_t blocks = divide_up(positions, kLanes);
    quantize(values, blocks, positions, weights, integers, steps, sums);
    for (size_t row = 0; row < kRows; row += kTogether) {
      const Mixed rows{integers + row,        sums + row, steps + row, factor + row,
                       states + row * stride, stride};
      size_t d = 0;
      if constexpr (kVectors > 1) {
        for (; d + kVectors * kLanes <= padded_dim_; d += kVectors * kLanes)
          mix_vectors<kVectors, 0>(values, blocks, d, rows);
      }
      for (; d < padded_dim_; d += kLanes)
        (kValues == CacheType::kInt4 && d / kLanes % 2 == 1)
            ? mix_vectors<1, 1>(values, blocks, d, rows)
            : mix_vectors<1, 0>(values, blocks, d, rows);
    }
  }

 private:
  static constexpr size_t kQueryBytes = KeyProducts::kQueryBytes;
  static constexpr float kMostSteps = (1 << 14) - 1;
  /// kTogether rows' weights and where they are mixed to.
  struct Mixed {
    const typename ValueProducts::Weights* weights;
    const int32_t* sums;
    const float *steps, *factor;
    float* outputs;
    size_t stride;
  };
  static constexpr size_t kPasses = divide_up(kRows, kByteRows);
  static constexpr size_t kTogether =
      divide_up(kRows, kPasses);  ///< rows whose sums are in registers
  static_assert(kPasses * kTogether == kRows);
  static constexpr size_t kRoom = kByteRows * kAttentionVectors / kTogether;
  static constexpr size_t kVectors = kRoom >= 4 ? 4 : kRoom >= 2 ? 2 : 1;

  /// The sum of products, of those with n where 2 n - 15 is meant, and of the other factors.
  template <CacheType kType>
  static I32x16 centered(I32x16 acc, int32_t sum) {
    return kType == CacheType::kInt4 ? sub(add(acc, acc), broadcast(kCacheMostNibble * sum)) : acc;
  }

  template <size_t kBlocks, bool kFromMemory>
  void score_blocks(const Keys<kFromMemory>& keys, size_t first_block, size_t row,
                    float* scores) const {
    I32x16 acc[kTogether][kBlocks];
    unrolled<kTogether>([&](auto r) {
      unrolled<kBlocks>([&](auto b) { acc[r][b] = KeyProducts::begin_score(query_sum_[row + r]); });
    });
    const int8_t* query = query_ + row * kQueryBytes;
    const uint8_t* block = reinterpret_cast<const uint8_t*>(keys.block(first_block));
    const auto* ahead = keys.block(first_block + kAttentionTile / kLanes);
    for (size_t i = 0; i < lines_; ++i, query += kRows * kQueryBytes, block += kLineBytes) {
      if constexpr (kFromMemory) {
        unrolled<kBlocks>(
            [&](auto b) { prefetch<kLineBytes>(ahead + b * keys.stride + i * kLineBytes); });
      }
      KeyProducts::add_keys(block, keys.stride, query, acc);
    }
    unrolled<kBlocks>([&](auto b) {
      float* to = scores + (first_block + b) * kLanes;
      const F32x16 scale = load(keys.scales + (first_block + b) * keys.scale_stride);
      unrolled<kTogether>([&](auto r) {
        store(to + (row + r) * kAttentionTile,
              mul(to_float(centered<kKeys>(acc[r][b], query_sum_[row + r])),
                  mul(scale, broadcast(query_scale_[row + r]))));
      });
    });
  }

  /// \tparam kHalf of the bytes with column d.
  template <size_t kCount, size_t kHalf, bool kFromMemory>
  void mix_vectors(const Values<kFromMemory>& values, size_t blocks, size_t d,
                   const Mixed& rows) const {
    I32x16 acc[kTogether][kCount];
    unrolled<kTogether>(
        [&](auto r) { unrolled<kCount>([&](auto v) { acc[r][v] = broadcast(int32_t{0}); }); });
    ValueProducts::template add_values<kHalf>(values, blocks, d, columns_, rows.weights, acc);
    unrolled<kTogether>([&](auto r) {
      unrolled<kCount>([&](auto v) {
        float* output = rows.outputs + r * rows.stride + d + v * kLanes;
        const F32x16 before = mul(load(output), broadcast(rows.factor[r]));
        const F32x16 sum = to_float(centered<kValues>(acc[r][v], rows.sums[r]));
        store(output, fused(sum, broadcast(rows.steps[r]), before));
      });
    });
  }

  /// Multiplies the rows' weights by the values' scales and writes them as integers, of positions
  /// that do not exist zero, their steps and, of int4, their sums.
  template <bool kFromMemory>
  static void quantize(const Values<kFromMemory>& values, size_t blocks, size_t positions,
                       float* weights, typename ValueProducts::Weights (&integers)[kRows],
                       float (&steps)[kLanes], int32_t (&sums)[kRows]) {
    alignas(kLineBytes) float largest[kLanes] = {}, inverse[kLanes];
    for (size_t r = 0; r < kRows; ++r)
      largest[r] = weigh(values, blocks, positions, weights + r * kAttentionTile);
    store(steps, mul(load(largest), broadcast(1.0f / kMostSteps)));
    store(inverse, div(broadcast(kMostSteps), load(largest)));
    for (size_t r = 0; r < kRows; ++r) {
      if (!(steps[r] >= FLT_MIN)) steps[r] = inverse[r] = 0;
      for (size_t b = 0; b < blocks; ++b) {
        const F32x16 weight = load(weights + r * kAttentionTile + b * kLanes);
        const F32x16 number = max(mul(weight, broadcast(inverse[r])), broadcast(0.0f));
        const I32x16 integer = round_to_int(min(number, broadcast(kMostSteps)));
        ValueProducts::put_weights(integer, b * kLanes, integers[r]);
        if constexpr (kValues == CacheType::kInt4) sums[r] += sum(integer);
      }
    }
  }

  /// Multiplies a row's weights by the values' scales; returns the largest.
  template <bool kFromMemory>
  static float weigh(const Values<kFromMemory>& values, size_t blocks, size_t positions,
                     float* weights) {
    F32x16 largest = broadcast(0.0f);
    const size_t whole = positions / kLanes;
    for (size_t b = 0; b < whole; ++b) {
      const F32x16 scale = load(values.scales + b * values.scale_stride);
      const F32x16 weight = mul(load(weights + b * kLanes), scale);
      store(weights + b * kLanes, weight);
      largest = max(weight, largest);
    }
    if (whole < blocks) {  // scales of positions that do not exist are any numbers
      float* last = weights + whole * kLanes;
      const size_t left = positions % kLanes;
      const F32x16 scale = load_some(values.scales + whole * values.scale_stride, left);
      const F32x16 weight = mul(load_some(last, left), scale);
      store(last, weight);
      largest = max(weight, largest);
    }
    return lane_max(largest);
  }

  size_t head_dim_, lines_, padded_dim_, columns_;
  int8_t* query_;  // [lines][kRows][kQueryBytes]
  float query_scale_[kRows];
  int32_t query_sum_[kRows];
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
