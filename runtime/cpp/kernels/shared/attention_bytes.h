#pragma once

/// \file
/// The products of attention with a cache of int8 or int4: integers, which every order of sums
/// gives alike.

#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"
#include "kernels/shared/integer_products.h"
#include "kernels/shared/symmetric.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// The sum of products, of those with n where 2 n - 15 is meant, and of the other factors.
template <CacheType kType>
inline I32x16 centered(I32x16 acc, int32_t sum) {
  return kType == CacheType::kInt4 ? sub(add(acc, acc), broadcast(kCacheMostNibble * sum)) : acc;
}

/// How kRows rows are taken together, as many as have registers for their sums.
template <size_t kRows>
struct ByteRows {
  static constexpr size_t kPasses = divide_up(kRows, kByteRows);
  static constexpr size_t kTogether = divide_up(kRows, kPasses);
  static_assert(kPasses * kTogether == kRows);
  static constexpr size_t kRoom = kByteRows * kAttentionVectors / kTogether;
  static constexpr size_t kVectors = kRoom >= 4 ? 4 : kRoom >= 2 ? 2 : 1;
};

/// The scores of kRows rows with keys of a type.
template <size_t kRows, CacheType kType>
class ByteScores {
  using Products = IntegerProducts<kType == CacheType::kInt4>;
  using Keys = Blocks<Element<kType>, kPrefetches>;

 public:
  /// \param query room for [head_dim][kRows] floats.
  void start(size_t head_dim, float* query) {
    head_dim_ = head_dim;
    lines_ = divide_up(head_dim, Products::kColumns);
    query_ = reinterpret_cast<int8_t*>(query);
  }

  /// Takes row r's query, as int8; its scores are products by `scale`.
  [[gnu::noinline]] void take_query(size_t r, const float* q, float scale) {
    int32_t sum = 0;
    const float step =
        quantize_symmetric(q, head_dim_, [&](size_t d, size_t count, const int8_t* lanes) {
          for (size_t i = 0; i < count; i += Products::kColumns) {
            const size_t at = (d + i) / Products::kColumns * kRows + r;
            Products::put_query(lanes + i, query_ + at * kQueryBytes);
          }
          for (size_t i = 0; i < kLanes; ++i) sum += lanes[i];
        });
    scale_[r] = step * scale;
    sum_[r] = sum;
  }

  /// Scores of `blocks` * 16 positions, row after row.
  [[gnu::noinline]] void score(const Keys& keys, size_t blocks, float* scores) const {
    for (size_t row = 0; row < kRows; row += kTogether) {
      size_t b = 0;
      for (; b + kVectors <= blocks; b += kVectors) score_blocks<kVectors>(keys, b, row, scores);
      for (; b < blocks; ++b) score_blocks<1>(keys, b, row, scores);
    }
  }

 private:
  static constexpr size_t kQueryBytes = Products::kQueryBytes;
  static constexpr size_t kTogether = ByteRows<kRows>::kTogether;
  static constexpr size_t kVectors = ByteRows<kRows>::kVectors;

  template <size_t kBlocks>
  void score_blocks(const Keys& keys, size_t first_block, size_t row, float* scores) const {
    I32x16 acc[kTogether][kBlocks];
    unrolled<kTogether>([&](auto r) {
      unrolled<kBlocks>([&](auto b) { acc[r][b] = Products::begin_score(sum_[row + r]); });
    });
    const int8_t* query = query_ + row * kQueryBytes;
    const uint8_t* block = reinterpret_cast<const uint8_t*>(keys.block(first_block));
    const auto* ahead = keys.block(first_block + kAttentionTile / kLanes);
    for (size_t i = 0; i < lines_; ++i, query += kRows * kQueryBytes, block += kLineBytes) {
      if constexpr (kPrefetches) {
        unrolled<kBlocks>(
            [&](auto b) { prefetch<kLineBytes>(ahead + b * keys.stride + i * kLineBytes); });
      }
      Products::add_keys(block, keys.stride, query, acc);
    }
    unrolled<kBlocks>([&](auto b) {
      float* to = scores + (first_block + b) * kLanes;
      const F32x16 scale = load(keys.scales + (first_block + b) * keys.scale_stride);
      unrolled<kTogether>([&](auto r) {
        store(to + (row + r) * kAttentionTile,
              mul(to_float(centered<kType>(acc[r][b], sum_[row + r])),
                  mul(scale, broadcast(scale_[row + r]))));
      });
    });
  }

  size_t head_dim_, lines_;
  int8_t* query_;  // [lines][kRows][kQueryBytes]
  float scale_[kRows];
  int32_t sum_[kRows];
};

/// Multiplies a row's weights by the values' scales; returns the largest.
[[gnu::noinline]] inline float weigh(const float* scales, size_t stride, size_t positions,
                                     float* weights) {
  F32x16 largest = broadcast(0.0f);
  const size_t whole = positions / kLanes, left = positions % kLanes;
  for (size_t b = 0; b < whole; ++b) {
    const F32x16 weight = mul(load(weights + b * kLanes), load(scales + b * stride));
    store(weights + b * kLanes, weight);
    largest = max(weight, largest);
  }
  if (left > 0) {  // scales of positions that do not exist are any numbers
    float* last = weights + whole * kLanes;
    const F32x16 weight = mul(load_some(last, left), load_some(scales + whole * stride, left));
    store(last, weight);
    largest = max(weight, largest);
  }
  return lane_max(largest);
}

/// The sums of kRows rows' weights times values of a type.
template <size_t kRows, CacheType kType>
class ByteMix {
  using Products = IntegerProducts<kType == CacheType::kInt4>;
  using Values = Blocks<Element<kType>, kPrefetches>;

 public:
  void start(size_t head_dim) {
    padded_dim_ = round_up(head_dim, kLanes);
    columns_ = cache_value_columns(kType, head_dim);
  }

  /// outputs = outputs * factor + weights . values; the weights are lost.
  [[gnu::noinline]] void mix(const Values& values, size_t positions, float* weights,
                             const float* factor, float* states, size_t stride) const {
    typename Products::Weights integers[kRows];
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
        (kType == CacheType::kInt4 && d / kLanes % 2 == 1)
            ? mix_vectors<1, 1>(values, blocks, d, rows)
            : mix_vectors<1, 0>(values, blocks, d, rows);
    }
  }

 private:
  static constexpr float kMostSteps = (1 << 14) - 1;
  static constexpr size_t kTogether = ByteRows<kRows>::kTogether;
  static constexpr size_t kVectors = ByteRows<kRows>::kVectors;
  /// kTogether rows' weights and where they are mixed to.
  struct Mixed {
    const typename Products::Weights* weights;
    const int32_t* sums;
    const float *steps, *factor;
    float* outputs;
    size_t stride;
  };

  /// \tparam kHalf of the bytes with column d.
  template <size_t kCount, size_t kHalf>
  void mix_vectors(const Values& values, size_t blocks, size_t d, const Mixed& rows) const {
    I32x16 acc[kTogether][kCount];
    unrolled<kTogether>(
        [&](auto r) { unrolled<kCount>([&](auto v) { acc[r][v] = broadcast(int32_t{0}); }); });
    Products::template add_values<kHalf>(values, blocks, d, columns_, rows.weights, acc);
    unrolled<kTogether>([&](auto r) {
      unrolled<kCount>([&](auto v) {
        float* output = rows.outputs + r * rows.stride + d + v * kLanes;
        const F32x16 before = mul(load(output), broadcast(rows.factor[r]));
        const F32x16 sum = to_float(centered<kType>(acc[r][v], rows.sums[r]));
        store(output, fused(sum, broadcast(rows.steps[r]), before));
      });
    });
  }

  /// Multiplies the rows' weights by the values' scales and writes them as integers, of positions
  /// that do not exist zero, their steps and, of int4, their sums.
  static void quantize(const Values& values, size_t blocks, size_t positions, float* weights,
                       typename Products::Weights (&integers)[kRows], float (&steps)[kLanes],
                       int32_t (&sums)[kRows]) {
    alignas(kLineBytes) float largest[kLanes] = {}, inverse[kLanes];
    for (size_t r = 0; r < kRows; ++r)
      largest[r] =
          weigh(values.scales, values.scale_stride, positions, weights + r * kAttentionTile);
    store(steps, mul(load(largest), broadcast(1.0f / kMostSteps)));
    store(inverse, div(broadcast(kMostSteps), load(largest)));
    for (size_t r = 0; r < kRows; ++r) {
      if (!(steps[r] >= FLT_MIN)) steps[r] = inverse[r] = 0;
      for (size_t b = 0; b < blocks; ++b) {
        const F32x16 weight = load(weights + r * kAttentionTile + b * kLanes);
        const F32x16 number = max(mul(weight, broadcast(inverse[r])), broadcast(0.0f));
        const I32x16 integer = round_to_int(min(number, broadcast(kMostSteps)));
        Products::put_weights(integer, b * kLanes, integers[r]);
        if constexpr (kType == CacheType::kInt4) sums[r] += sum(integer);
      }
    }
  }

  size_t padded_dim_, columns_;
};

/// The products of kRows rows with keys and values of such types. A type's are the same functions
/// whatever the other's.
template <size_t kRows, CacheType kKeys, CacheType kValues>
class ByteProducts : public ByteScores<kRows, kKeys>, public ByteMix<kRows, kValues> {
 public:
  void start(size_t head_dim, float* query) {
    ByteScores<kRows, kKeys>::start(head_dim, query);
    ByteMix<kRows, kValues>::start(head_dim);
  }
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
