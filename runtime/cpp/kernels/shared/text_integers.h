#pragma once

/// \file
/// Text attention in integers: a tile of keys and values is rounded, then all queries pass over it.

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/exponential.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/text_tile.h"
#include "kernels/shared/text_window.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// The queries of up to kVectors * 16 rows, side by side in lanes, on their way through a text.
template <size_t kVectors, size_t kSums>
class IntegerQueries {
 public:
  static constexpr size_t kWidth = kVectors * kLanes;

  /// \param state kWidth * text_query_size() floats; \param work kWidth * kTextTile * 5 / 4.
  IntegerQueries(const TextAttentionArgs& args, size_t first, size_t count, float* state,
                 float* work)
      : args_(args),
        first_(first),
        count_(count),
        lines_(divide_up(args.head_dim, kCacheFour)),
        outputs_(state),
        scales_(outputs_ + args.head_dim * kWidth),
        largest_(scales_ + kWidth),
        sums_(largest_ + kWidth),
        queries_(reinterpret_cast<uint8_t*>(sums_ + kWidth)),
        scores_(work),
        weights_(reinterpret_cast<uint8_t*>(scores_ + kTextTile * kWidth)) {}

  /// \param lines memory for round_rows().
  void start(float* lines) {
    for (size_t i = 0; i < args_.head_dim * kWidth; i += kLanes)
      store(outputs_ + i, broadcast(0.0f));
    const F32x16 scale = broadcast(args_.scale * kLog2OfE);
    unrolled<kVectors>([&](auto v) {
      constexpr size_t kFirst = v * kLanes;
      const size_t left = count_ > kFirst ? count_ - kFirst : 0;
      // Lanes without a row repeat the last one's.
      const size_t row = first_ + (left > 0 ? kFirst : count_ - 1);
      int32_t sums[kLanes];
      round_rows(args_.q + row * args_.q_stride, args_.q_stride, left > 0 ? left : 1,
                 args_.head_dim, kCacheBias, lines, scales_ + kFirst, sums,
                 [&](size_t line, I32x16 fours) {
                   store(reinterpret_cast<int32_t*>(queries_ + line * kWidth * kCacheFour) + kFirst,
                         fours);
                 });
      store(scales_ + kFirst, max(mul(load(scales_ + kFirst), scale), broadcast(kLeastScale)));
      store(sums_ + kFirst, broadcast(0.0f));
      store(largest_ + kFirst, broadcast(kLeast));
    });
  }

  void add_tile(const TextTile& tile, TextRange range) {
    // The queries of a whole block decide: so that a query's tiles are those of any other number
    // of queries together. Of a tile, all positions are multiplied, as its sums are of all.
    const size_t block = first_ - first_ % kTextAttentionRows;
    const TextRange seen = seen_tiles(args_, block, block + kTextAttentionRows - 1);
    if (range.first < seen.first || range.first >= seen.end) return;
    const size_t positions = range.end - range.first;
    F32x16 largest[kVectors], factor[kVectors], before[kVectors];
    score(tile, positions, largest);
    if (hides_some(args_, first_, first_ + count_ - 1, range)) {
      hide(args_, first_, count_, range, kHidden, scores_, kWidth);
      unrolled<kVectors>([&](auto v) {
        largest[v] = broadcast(kHidden);
        for (size_t p = 0; p < positions; ++p)
          largest[v] = max(load(scores_ + p * kWidth + v * kLanes), largest[v]);
      });
    }
    unrolled<kVectors>([&](auto v) {
      const F32x16 scale = load(scales_ + v * kLanes);
      const F32x16 old = load(largest_ + v * kLanes), most = max(largest[v], old);
      store(largest_ + v * kLanes, most);
      before[v] = exponential2(mul(sub(old, most), scale));
      // What exponential2() has at its lower end is nothing.
      factor[v] = sub(exponential2(mul(sub(largest[v], most), scale)), broadcast(0x1p-125f));
    });
    weigh(positions, largest, before, factor);
    add_values(tile, positions, before, factor);
  }

  void finish() {
    for (size_t d = 0; d < args_.head_dim; ++d) {
      unrolled<kVectors>([&](auto v) {
        float* output = outputs_ + d * kWidth + v * kLanes;
        store(output, div(load(output), load(sums_ + v * kLanes)));
      });
    }
    transpose_back(outputs_, kWidth, count_, args_.head_dim, args_.out + first_ * args_.out_stride,
                   args_.out_stride);
  }

 private:
  /// Scores, before the query's scale, that are not seen, and what is below all others.
  static constexpr float kHidden = -0x1p+120f, kLeast = -0x1p+110f;
  /// Of a query: with it, the difference of these is still beyond what exponential2() tells apart.
  static constexpr float kLeastScale = 0x1p-100f;

  [[gnu::noinline]] void score(const TextTile& tile, size_t positions,
                               F32x16 (&largest)[kVectors]) {
    F32x16 most[kVectors];
    unrolled<kVectors>([&](auto v) { most[v] = broadcast(kHidden); });
    const int32_t* sums = tile.key_sums();
    const float* key_scales = tile.key_scales();
    multiply_all_fours<kSums / kVectors, kVectors>(
        {queries_, tile.keys(), tile.key_step(), lines_}, 0, positions,
        [&](size_t p) [[gnu::always_inline]] { return Products::begin_score(sums[p]); },
        [&](size_t p, const I32x16(&acc)[kVectors]) [[gnu::always_inline]] {
          const F32x16 key_scale = broadcast(key_scales[p]);
          unrolled<kVectors>([&](auto v) {
            const F32x16 score = mul(to_float(acc[v]), key_scale);
            store(scores_ + p * kWidth + v * kLanes, score);
            most[v] = max(score, most[v]);
          });
        });
    unrolled<kVectors>([&](auto v) { largest[v] = most[v]; });
  }

  /// Writes the weights, [positions / 4][kVectors][16][4], and adds them to the sums.
  [[gnu::noinline]] void weigh(size_t positions, const F32x16 (&largest)[kVectors],
                               const F32x16 (&before)[kVectors], const F32x16 (&factor)[kVectors]) {
    for (size_t p = positions; p % kCacheFour != 0; ++p)
      unrolled<kVectors>(
          [&](auto v) { store(scores_ + p * kWidth + v * kLanes, broadcast(kHidden)); });
    unrolled<kVectors>([&](auto v) {
      const F32x16 scale = load(scales_ + v * kLanes), lowest = div(broadcast(-125.0f), scale);
      F32x16 sum = broadcast(0.0f);
      for (size_t p = 0; p < positions; p += kCacheFour) {
        I32x16 four[kCacheFour];
        unrolled<kCacheFour>([&](auto i) {
          const F32x16 score = load(scores_ + (p + i) * kWidth + v * kLanes);
          const F32x16 below = max(sub(score, largest[v]), lowest);
          const F32x16 weight = exponential2_bytes(below, scale);
          sum = add(sum, weight);
          four[i] = round_to_int(weight);
        });
        store(reinterpret_cast<int32_t*>(weights_ + p * kWidth + v * kLineBytes),
              joined(four[0], four[1], four[2], four[3]));
      }
      float* sums = sums_ + v * kLanes;
      store(sums, fused(sum, factor[v], mul(load(sums), before[v])));
    });
  }

  [[gnu::noinline]] void add_values(const TextTile& tile, size_t positions,
                                    const F32x16 (&before)[kVectors],
                                    const F32x16 (&factor)[kVectors]) {
    const int32_t* sums = tile.value_sums();
    const float* scales = tile.value_scales();
    multiply_all_fours<kSums / kVectors, kVectors>(
        {weights_, tile.values(), tile.value_step(), divide_up(positions, kCacheFour)}, 0,
        args_.head_dim,
        [&](size_t d) [[gnu::always_inline]] { return Products::begin_plain(sums[d]); },
        [&](size_t d, const I32x16(&acc)[kVectors]) [[gnu::always_inline]] {
          const F32x16 scale = broadcast(scales[d]);
          unrolled<kVectors>([&](auto v) {
            float* output = outputs_ + d * kWidth + v * kLanes;
            const F32x16 old = mul(load(output), before[v]);
            store(output, fused(to_float(acc[v]), mul(scale, factor[v]), old));
          });
        });
  }

  using Products = IntegerProducts<false>;

  const TextAttentionArgs& args_;
  const size_t first_, count_, lines_;
  float* const outputs_;  // [head_dim][kWidth], not yet divided
  float* const scales_;   // [kWidth]
  float* const largest_;
  float* const sums_;
  uint8_t* const queries_;  // [lines_][kWidth][4], plus 128
  float* const scores_;     // [kTextTile][kWidth]
  uint8_t* const weights_;  // [kTextTile / 4][kWidth][4]
};

/// text_attention() of integers, for kTextIntegerRows queries at most.
inline void attend_in_integers(const TextAttentionArgs& args) {
  constexpr size_t kSums = [] {
    size_t sums = 1;
    while (2 * sums <= kByteRows * kAttentionVectors) sums *= 2;
    return sums;
  }();
  using Queries = IntegerQueries<kAttentionVectors, kSums>;
  constexpr size_t kAhead =
      kTextTile * Queries::kWidth / kTextIntegerRows;  // for all queries: a tile
  static_assert(kTextAttentionRows % Queries::kWidth == 0);
  float* const states = args.scratch;
  float* const tile_memory = states + kTextIntegerRows * text_query_size(args.head_dim);
  float* const work = tile_memory + text_tile_size(args.head_dim);
  const auto each = [&](auto run) {
    for (size_t first = args.first; first < args.last; first += Queries::kWidth) {
      const size_t left = args.last - first;
      run(Queries(args, first, left < Queries::kWidth ? left : Queries::kWidth,
                  states + (first - args.first) * text_query_size(args.head_dim), work));
    }
  };
  TextTile tile(args.head_dim, tile_memory);
  each([&](Queries queries) { queries.start(tile.lines()); });
  for (TextRange seen = seen_tiles(args, args.first, args.last - 1); seen.first < seen.end;
       seen.first += kTextTile) {
    // All of a tile, though nothing may see its end: the values' scales are of all.
    const size_t left = args.rows - seen.first, count = left < kTextTile ? left : kTextTile;
    tile.take(args, seen.first, count);
    size_t next = seen.first + kTextTile;
    each([&](Queries queries) {
      tile.prefetch_rows(args, next, next + kAhead);
      next += kAhead;
      queries.add_tile(tile, {seen.first, seen.first + count});
    });
  }
  each([](Queries queries) { queries.finish(); });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
