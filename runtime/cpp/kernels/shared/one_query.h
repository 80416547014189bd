#pragma once

/// \file
/// Text attention of one query that sees all positions: positions in lanes, then outputs. Every sum
/// has the order that it has among other queries.

#include <cfloat>
#include <limits>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"
#include "kernels/shared/exponential.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/transpose.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr float kLog2OfE = 0x1.715476p+0f;

template <bool kBiased>
class OneQuery {
 public:
  /// \param scale of scores, in the units in which they become powers of two if nothing is added.
  OneQuery(const TextAttentionArgs& args, size_t row, float scale)
      : args_(args),
        row_(row),
        scale_(scale),
        keys_(args.scratch),
        query_(keys_ + args.head_dim * kLanes),
        outputs_(query_ + args.head_dim),
        weights_(outputs_ + args.head_dim) {}

  static bool takes(const TextAttentionArgs& args, size_t queries) {
    return queries == 1 && args.head_dim % kLanes == 0 && args.window == 0 &&
           args.after >= args.rows;
  }

  void run() {
    const float* query = args_.q + row_ * args_.q_stride;
    for (size_t d = 0; d < args_.head_dim; d += kLanes) {
      store(query_ + d, mul(load(query + d), broadcast(scale_)));
      store(outputs_ + d, broadcast(0.0f));
    }
    for (size_t start = 0; start < args_.rows; start += kTextTile)
      add_tile(start, args_.rows - start < kTextTile ? args_.rows - start : kTextTile);
    if (kBiased && largest_ == kNothing) sum_ = -kNothing;  // it saw nothing: outputs are zeros
    for (size_t d = 0; d < args_.head_dim; d += kLanes) {
      store(args_.out + row_ * args_.out_stride + d, div(load(outputs_ + d), broadcast(sum_)));
    }
  }

 private:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();
  /// Vectors of outputs that are in registers together.
  static constexpr size_t kTogether = 4;
  /// Rows of keys, or of values, that are read ahead: they lie apart, which hides them from the
  /// processor's own prefetching.
  static constexpr size_t kAhead = kLanes;

  void add_tile(size_t start, size_t count) {
    F32x16 most = broadcast(largest_);
    for (size_t p = 0; p < count; p += kLanes) {
      const size_t here = count - p < kLanes ? count - p : kLanes;
      F32x16 scores = products(start + p, here);
      if constexpr (kBiased) {
        const float* bias = args_.bias + row_ * args_.bias_stride + start + p;
        scores = add(scores, here == kLanes ? load(bias) : load_some(bias, here));
      }
      store(weights_ + p, scores);
      for (size_t i = here; i < kLanes; ++i) weights_[p + i] = kNothing;
      most = max(load(weights_ + p), most);
    }
    const float before = largest_;
    float lanes[kLanes];
    store(lanes, most);
    for (const float lane : lanes) largest_ = lane > largest_ ? lane : largest_;
    const F32x16 highest = broadcast(largest_);
    for (size_t p = 0; p < count; p += kLanes)
      store(weights_ + p, power(sub(load(weights_ + p), highest)));
    const F32x16 factor = power(sub(broadcast(before), highest));
    store(lanes, factor);
    sum_ *= lanes[0];
    for (size_t p = 0; p < count; ++p) sum_ += weights_[p];
    size_t d = 0;
    for (; d + kTogether * kLanes <= args_.head_dim; d += kTogether * kLanes)
      add_values<kTogether>(start, count, d, factor);
    for (; d < args_.head_dim; d += kLanes) add_values<1>(start, count, d, factor);
  }

  /// The products of the query with up to 16 keys; lanes behind them have the last one's.
  F32x16 products(size_t start, size_t count) {
    if constexpr (kPrefetches) {
      const float* ahead = args_.k + (start + kAhead) * args_.k_stride;
      for (size_t i = 0; i < kAhead; ++i, ahead += args_.k_stride)
        for (size_t d = 0; d < args_.head_dim; d += kLanes) prefetch<kLanes>(ahead + d);
    }
    const float* keys = args_.k + start * args_.k_stride;
    F32x16 sums = broadcast(0.0f);
#if defined(__AVX512F__)
    for (size_t d = 0; d < args_.head_dim; d += kLanes) {
      F32x16 lines[kLanes];
      for (size_t i = 0; i < kLanes; ++i)
        lines[i] = load(keys + (i < count ? i : count - 1) * args_.k_stride + d);
      transpose_vectors(lines);
      for (size_t i = 0; i < kLanes; ++i) sums = fused(broadcast(query_[d + i]), lines[i], sums);
    }
#else
    transpose(keys, args_.k_stride, count, args_.head_dim, 1.0f, keys_, kLanes);
    for (size_t d = 0; d < args_.head_dim; ++d)
      sums = fused(broadcast(query_[d]), load(keys_ + d * kLanes), sums);
#endif
    return sums;
  }

  template <size_t kCount>
  void add_values(size_t start, size_t count, size_t column, F32x16 factor) {
    F32x16 sums[kCount];
    unrolled<kCount>([&](auto i) { sums[i] = mul(load(outputs_ + column + i * kLanes), factor); });
    const float* values = args_.v + start * args_.v_stride + column;
    for (size_t p = 0; p < count; ++p, values += args_.v_stride) {
      if constexpr (kPrefetches) prefetch<kCount * kLanes>(values + kAhead * args_.v_stride);
      const F32x16 weight = broadcast(weights_[p]);
      unrolled<kCount>(
          [&](auto i) { sums[i] = fused(load(values + i * kLanes), weight, sums[i]); });
    }
    unrolled<kCount>([&](auto i) { store(outputs_ + column + i * kLanes, sums[i]); });
  }

  static F32x16 power(F32x16 score) {
    return exponential2(kBiased ? mul(score, broadcast(kLog2OfE)) : score);
  }

  const TextAttentionArgs& args_;
  const size_t row_;
  const float scale_;
  float* const keys_;     // [head_dim][16]
  float* const query_;    // [head_dim], times the scale
  float* const outputs_;  // the same, not yet divided
  float* const weights_;  // [kTextTile]
  float largest_ = kBiased ? kNothing : -FLT_MAX, sum_ = 0;
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
