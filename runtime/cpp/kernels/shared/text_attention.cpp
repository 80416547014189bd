#include <cfloat>
#include <limits>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/exponential.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/one_query.h"
#include "kernels/shared/text_integers.h"
#include "kernels/shared/text_window.h"
#include "kernels/shared/transpose.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kTextVectors = kAttentionVectors;
/// Sums that are in registers together, a power of two.
constexpr size_t kTextSums = [] {
  size_t sums = 1;
  while (2 * sums <= kAttentionRows * kAttentionVectors) sums *= 2;
  return sums;
}();
static_assert(kTextVectors * kLanes <= kTextAttentionRows);

/// to[i] = from[i] + sum over k of a[i * row_step + k * column_step] * b[k], one fused chain, for
/// kCount vectors of b; `from` is times `factor`, or zero if it is null.
template <size_t kCount, size_t kVectors>
[[gnu::always_inline]] inline void multiply(const float* a, size_t row_step, size_t column_step,
                                            const float* b, size_t count, const F32x16* factor,
                                            float* to) {
  constexpr size_t kStride = kVectors * kLanes;
  F32x16 acc[kCount][kVectors];
  unrolled<kCount>([&](auto i) {
    unrolled<kVectors>([&](auto v) {
      acc[i][v] =
          factor == nullptr ? broadcast(0.0f) : mul(load(to + i * kStride + v * kLanes), factor[v]);
    });
  });
  for (size_t k = 0; k < count; ++k, a += column_step, b += kStride) {
    F32x16 rows[kVectors];
    unrolled<kVectors>([&](auto v) { rows[v] = load(b + v * kLanes); });
    unrolled<kCount>([&](auto i) {
      const F32x16 one = broadcast(a[i * row_step]);
      unrolled<kVectors>([&](auto v) { acc[i][v] = fused(one, rows[v], acc[i][v]); });
    });
  }
  unrolled<kCount>([&](auto i) {
    unrolled<kVectors>([&](auto v) { store(to + i * kStride + v * kLanes, acc[i][v]); });
  });
}

/// As multiply(), for any number of rows of a: kCount at a time, then half as many.
template <size_t kVectors, size_t kCount = kTextSums / kVectors>
void multiply_all(const float* a, size_t rows, size_t row_step, size_t column_step, const float* b,
                  size_t count, const F32x16* factor, float* to) {
  size_t i = 0;
  for (; i + kCount <= rows; i += kCount) {
    multiply<kCount, kVectors>(a + i * row_step, row_step, column_step, b, count, factor,
                               to + i * kVectors * kLanes);
  }
  if constexpr (kCount > 1) {
    if (i == rows) return;
    multiply_all<kVectors, kCount / 2>(a + i * row_step, rows - i, row_step, column_step, b, count,
                                       factor, to + i * kVectors * kLanes);
  }
}

/// The queries of up to kVectors * 16 rows, side by side in lanes, on their way through a text.
/// With biases, scores become powers of two after these are added: so the least number stays
/// finite.
template <size_t kVectors, bool kBiased>
class Queries {
 public:
  Queries(const TextAttentionArgs& args, size_t first, size_t count)
      : args_(args),
        first_(first),
        count_(count),
        queries_(args.scratch),
        outputs_(queries_ + args.head_dim * kWidth),
        weights_(outputs_ + args.head_dim * kWidth),
        biases_(weights_ + kTextTile * kWidth) {}

  void run() {
    transpose(args_.q + first_ * args_.q_stride, args_.q_stride, count_, args_.head_dim,
              kBiased ? args_.scale : args_.scale * kLog2OfE, queries_, kWidth);
    unrolled<kVectors>([&](auto v) {
      largest_[v] = broadcast(kBiased ? kNothing : -FLT_MAX);
      sums_[v] = broadcast(0.0f);
    });
    for (size_t i = 0; i < args_.head_dim * kWidth; i += kLanes) store(outputs_ + i, sums_[0]);
    for (TextRange seen = seen_tiles(args_, first_, first_ + count_ - 1); seen.first < seen.end;
         seen.first += kTextTile)
      add_tile(seen.first, seen.end - seen.first < kTextTile ? seen.end - seen.first : kTextTile);
    finish();
  }

 private:
  static constexpr size_t kWidth = kVectors * kLanes;
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();

  void add_tile(size_t start, size_t count) {
    multiply_all<kVectors>(args_.k + start * args_.k_stride, count, args_.k_stride, 1, queries_,
                           args_.head_dim, nullptr, weights_);
    if constexpr (kBiased) add_biases(start, count);
    const TextRange range{start, start + count};
    const bool hides = hides_some(args_, first_, first_ + count_ - 1, range);
    const auto hide_with = [&](float number) {
      hide(args_, first_, count_, range, number, weights_, kWidth);
    };
    if (hides) hide_with(kBiased ? kNothing : -FLT_MAX);
    F32x16 factor[kVectors];
    unrolled<kVectors>([&](auto v) {
      F32x16 largest = largest_[v];
      for (size_t p = 0; p < count; ++p)
        largest = max(load(weights_ + p * kWidth + v * kLanes), largest);
      factor[v] = power(sub(largest_[v], largest));
      largest_[v] = largest;
    });
    for (size_t p = 0; p < count; ++p) {
      unrolled<kVectors>([&](auto v) {
        float* weight = weights_ + p * kWidth + v * kLanes;
        store(weight, power(sub(load(weight), largest_[v])));
      });
    }
    if (hides) hide_with(0.0f);
    unrolled<kVectors>([&](auto v) {
      F32x16 sum = mul(sums_[v], factor[v]);
      for (size_t p = 0; p < count; ++p) sum = add(sum, load(weights_ + p * kWidth + v * kLanes));
      sums_[v] = sum;
    });
    multiply_all<kVectors>(args_.v + start * args_.v_stride, args_.head_dim, 1, args_.v_stride,
                           weights_, count, factor, outputs_);
  }

  static F32x16 power(F32x16 score) {
    return exponential2(kBiased ? mul(score, broadcast(kLog2OfE)) : score);
  }

  void add_biases(size_t start, size_t count) const {
    transpose(args_.bias + first_ * args_.bias_stride + start, args_.bias_stride, count_, count,
              1.0f, biases_, kWidth);
    for (size_t i = 0; i < count * kWidth; i += kLanes)
      store(weights_ + i, add(load(weights_ + i), load(biases_ + i)));
  }

  /// Makes the sums of queries that see nothing so large that their outputs are zeros.
  void drop_blind() {
    unrolled<kVectors>([&](auto v) {
      store(weights_, largest_[v]);
      store(weights_ + kLanes, sums_[v]);
      for (size_t lane = 0; lane < kLanes; ++lane)
        if (weights_[lane] == kNothing) weights_[kLanes + lane] = -kNothing;
      sums_[v] = load(weights_ + kLanes);
    });
  }

  void finish() {
    if constexpr (kBiased) drop_blind();
    for (size_t d = 0; d < args_.head_dim; ++d) {
      unrolled<kVectors>([&](auto v) {
        float* output = outputs_ + d * kWidth + v * kLanes;
        store(output, div(load(output), sums_[v]));
      });
    }
    transpose_back(outputs_, kWidth, count_, args_.head_dim, args_.out + first_ * args_.out_stride,
                   args_.out_stride);
  }

  const TextAttentionArgs& args_;
  const size_t first_, count_;
  float* const queries_;  // [head_dim][kWidth]
  float* const outputs_;  // the same, not yet divided
  float* const weights_;  // [kTextTile][kWidth]
  float* const biases_;   // the same
  F32x16 largest_[kVectors], sums_[kVectors];
};

template <bool kBiased>
void attend(const TextAttentionArgs& args) {
  for (size_t first = args.first; first < args.last;) {
    const size_t left = args.last - first, wide = kTextVectors * kLanes;
    if (OneQuery<kBiased>::takes(args, left)) {
      OneQuery<kBiased>(args, first, kBiased ? args.scale : args.scale * kLog2OfE).run();
      first = args.last;
    } else if (left > kLanes) {
      const size_t count = left < wide ? left : wide;
      Queries<kTextVectors, kBiased>(args, first, count).run();
      first += count;
    } else {
      Queries<1, kBiased>(args, first, left).run();
      first = args.last;
    }
  }
}

}  // namespace

void text_attention(const TextAttentionArgs& args) {
  if (args.integers) return attend_in_integers(args);
  args.bias == nullptr ? attend<false>(args) : attend<true>(args);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
