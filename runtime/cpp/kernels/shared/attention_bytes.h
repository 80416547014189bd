#pragma once

/// \file
/// The products of attention with a cache of int8: integers, which every order of sums gives alike.

#include <cfloat>
#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"
#include "kernels/shared/symmetric.h"

namespace thimble::kernels::THIMBLE_VARIANT {

inline int32_t four_at(const int8_t* bytes) {
  int32_t four;
  std::memcpy(&four, bytes, sizeof four);
  return four;
}

/// The products of kRows rows.
template <size_t kRows>
class ByteProducts {
 public:
  /// \param query room for [head_dim][kRows] floats.
  void start(size_t head_dim, float* query) {
    head_dim_ = head_dim;
    fours_ = divide_up(head_dim, kFour);
    padded_dim_ = round_up(head_dim, kLanes);
    query_ = reinterpret_cast<int8_t*>(query);
    std::memset(query_, 0, fours_ * kRows * kFour);
  }

  /// Takes row r's query, as int8; its scores are products by `scale`.
  void take_query(size_t r, const float* q, float scale) {
    int32_t sum = 0;
    const float step =
        quantize_symmetric(q, head_dim_, [&](size_t d, size_t count, const int8_t* lanes) {
          for (size_t i = 0; i < count; ++i) {
            query_[((d + i) / kFour * kRows + r) * kFour + (d + i) % kFour] = lanes[i];
            sum += lanes[i];
          }
        });
    query_scale_[r] = step * scale;
    query_sum_[r] = sum;
  }

  /// Scores of `blocks` * 16 positions, row after row.
  template <bool kFromMemory>
  void score(const Blocks<int8_t, kFromMemory>& keys, size_t blocks, float* scores) const {
    size_t b = 0;
    for (; b + kVectors <= blocks; b += kVectors) score_blocks<kVectors>(keys, b, scores);
    for (; b < blocks; ++b) score_blocks<1>(keys, b, scores);
  }

  /// outputs = outputs * factor + weights . values; the weights are lost.
  template <bool kFromMemory>
  void mix(const Blocks<int8_t, kFromMemory>& values, size_t positions, float* weights,
           const float* factor, float* states, size_t stride) const {
    Digits digits[kRows];
    float steps[kRows];
    const size_t blocks = divide_up(positions, kLanes);
    for (size_t r = 0; r < kRows; ++r)
      steps[r] = quantize(values, blocks, positions, weights + r * kAttentionTile, &digits[r]);
    size_t d = 0;
    for (; d + kVectors * kLanes <= padded_dim_; d += kVectors * kLanes)
      mix_vectors<kVectors>(values, blocks, d, digits, steps, factor, states + d, stride);
    for (; d < padded_dim_; d += kLanes)
      mix_vectors<1>(values, blocks, d, digits, steps, factor, states + d, stride);
  }

 private:
  static constexpr size_t kFour = 4;  ///< bytes whose products are added together
  /// A weight has two digits, 0 to 127: instructions that multiply bytes of different signs, and
  /// those that add two products in 16 bits, take them.
  static constexpr int32_t kBase = 128, kMostSteps = kBase * kBase - 1;
  struct Digits {
    int8_t high[kAttentionTile], low[kAttentionTile];
  };
  static constexpr size_t kRoom = kAttentionRows * kAttentionVectors / kRows;
  static constexpr size_t kVectors = kRoom >= 4 ? 4 : kRoom >= 2 ? 2 : 1;

  template <size_t kBlocks, bool kFromMemory>
  void score_blocks(const Blocks<int8_t, kFromMemory>& keys, size_t first_block,
                    float* scores) const {
    I32x16 acc[kRows][kBlocks];
    unrolled<kRows>([&](auto r) {
      unrolled<kBlocks>([&](auto b) { acc[r][b] = begin_biased(query_sum_[r]); });
    });
    const int8_t* query = query_;
    const uint8_t* block = reinterpret_cast<const uint8_t*>(keys.block(first_block));
    const int8_t* ahead = keys.block(first_block + kAttentionTile / kLanes);
    for (size_t i = 0; i < fours_; ++i, query += kRows * kFour, block += kLineBytes) {
      Bytes key[kBlocks];
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
        if constexpr (kFromMemory) prefetch<kLineBytes>(ahead + b * keys.stride + i * kLineBytes);
        key[b] = load_biased(block + b * keys.stride);
      });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const int32_t four = four_at(query + r * kFour);
        unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
          acc[r][b] = add_biased(acc[r][b], key[b], four);
        });
      });
    }
    unrolled<kBlocks>([&](auto b) {
      float* to = scores + (first_block + b) * kLanes;
      const F32x16 scale = load(keys.scales + (first_block + b) * keys.scale_stride);
      unrolled<kRows>([&](auto r) {
        store(to + r * kAttentionTile,
              mul(to_float(acc[r][b]), mul(scale, broadcast(query_scale_[r]))));
      });
    });
  }

  template <size_t kCount, bool kFromMemory>
  void mix_vectors(const Blocks<int8_t, kFromMemory>& values, size_t blocks, size_t d,
                   const Digits (&digits)[kRows], const float (&steps)[kRows], const float* factor,
                   float* outputs, size_t stride) const {
    I32x16 acc[kRows][kCount];
    unrolled<kRows>(
        [&](auto r) { unrolled<kCount>([&](auto v) { acc[r][v] = broadcast(int32_t{0}); }); });
    add_digits<kFromMemory, kCount>(values, blocks, d, digits[0].high, acc);
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) { acc[r][v] = mul(acc[r][v], broadcast(kBase)); });
    });
    add_digits<false, kCount>(values.again(), blocks, d, digits[0].low, acc);
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) {
        float* output = outputs + r * stride + v * kLanes;
        const F32x16 before = mul(load(output), broadcast(factor[r]));
        store(output, fused(to_float(acc[r][v]), broadcast(steps[r]), before));
      });
    });
  }

  /// Adds the values times one digit of each row's weights.
  template <bool kFromMemory, size_t kCount>
  void add_digits(const Blocks<int8_t, kFromMemory>& values, size_t blocks, size_t d,
                  const int8_t* digits, I32x16 (&acc)[kRows][kCount]) const {
    const size_t step = padded_dim_ * kFour;
    for (size_t b = 0; b < blocks; ++b) {
      const int8_t* block = values.block(b) + d * kFour;
      const int8_t* ahead = values.block(b + kAttentionTile / kLanes) + d * kFour;
      for (size_t p = 0; p < kLanes; p += kFour, block += step, digits += kFour) {
        if constexpr (kFromMemory) prefetch<kCount * kLineBytes>(ahead + p * padded_dim_);
        Bytes value[kCount];
        unrolled<kCount>(
            [&](auto v) [[gnu::always_inline]] { value[v] = load_bytes(block + v * kLineBytes); });
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          const int32_t four = four_at(digits + r * sizeof(Digits));
          unrolled<kCount>([&](auto v) [[gnu::always_inline]] {
            acc[r][v] = add_products(acc[r][v], value[v], four);
          });
        });
      }
    }
  }

  /// Multiplies a row's weights by the values' scales and writes their digits, of positions that do
  /// not exist zero; returns the step.
  template <bool kFromMemory>
  static float quantize(const Blocks<int8_t, kFromMemory>& values, size_t blocks, size_t positions,
                        float* weights, Digits* digits) {
    for (size_t b = 0; b < blocks; ++b) {
      const F32x16 scale = load(values.scales + b * values.scale_stride);
      store(weights + b * kLanes, mul(load(weights + b * kLanes), scale));
    }
    for (size_t i = positions; i < blocks * kLanes; ++i) weights[i] = 0;
    F32x16 largest = broadcast(0.0f);
    for (size_t b = 0; b < blocks; ++b) largest = max(load(weights + b * kLanes), largest);
    const float step = lane_max(largest) / kMostSteps;
    const F32x16 inverse = broadcast(step >= FLT_MIN ? 1.0f / step : 0.0f);
    for (size_t b = 0; b < blocks; ++b) {
      const F32x16 steps = max(mul(load(weights + b * kLanes), inverse), broadcast(0.0f));
      const I32x16 number = round_to_int(min(steps, broadcast(static_cast<float>(kMostSteps))));
      const I32x16 high = shift_right<7>(number);
      store_bytes(digits->high + b * kLanes, high);
      store_bytes(digits->low + b * kLanes, sub(number, mul(high, broadcast(kBase))));
    }
    return step >= FLT_MIN ? step : 0.0f;
  }

  size_t head_dim_, fours_, padded_dim_;
  int8_t* query_;  // [fours][kRows][4]
  float query_scale_[kRows];
  int32_t query_sum_[kRows];
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
