#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/exponential.h"
#include "kernels/functions.h"
#include "kernels/lanes.h"
#include "kernels/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

inline F32x16 load_cached(const uint16_t* from) { return load_half(from); }
inline F32x16 load_cached(const float* from) { return load(from); }
inline void store_cached(uint16_t* to, F32x16 a) { store_half(to, a); }
inline void store_cached(float* to, F32x16 a) { store(to, a); }

template <typename Element>
void write(const CacheWriteArgs& args) {
  const size_t padded_dim = round_up(args.head_dim, kLanes);
  Element* keys = static_cast<Element*>(args.keys) +
                  args.position / kLanes * kLanes * args.head_dim + args.position % kLanes;
  Element* values = static_cast<Element*>(args.values) + args.position * padded_dim;
  for (size_t d = 0; d < args.head_dim; d += kLanes) {
    const size_t count = args.head_dim - d < kLanes ? args.head_dim - d : kLanes;
    Element lanes[kLanes];
    store_cached(lanes, load_some(args.key + d, count));
    for (size_t i = 0; i < count; ++i) keys[(d + i) * kLanes] = lanes[i];
    store_cached(values + d, load_some(args.value + d, count));
  }
}

/// kRows query rows on their way through the positions. A row is a head of a token; rows of a tile
/// follow each other, heads first.
template <size_t kRows, typename Element>
class RowTile {
 public:
  RowTile(const AttentionArgs& args, size_t first, size_t count)
      : args_(args),
        first_(first),
        count_(count),
        padded_dim_(round_up(args.head_dim, kLanes)),
        query_(args.scratch),
        out_(query_ + kRows * args.head_dim),
        weights_(out_ + kRows * padded_dim_) {
    for (size_t r = 0; r < kRows; ++r) {
      const size_t row = first + (r < count ? r : count - 1);
      const float* q = args.q + row / args.heads * args.q_stride + row % args.heads * args.head_dim;
      for (size_t d = 0; d < args.head_dim; ++d) query_[d * kRows + r] = q[d];
      visible_[r] = args.start_pos + row / args.heads + 1;
      largest_[r] = -FLT_MAX;
      sum_[r] = 0;
    }
    for (size_t i = 0; i < kRows * padded_dim_; i += kLanes) store(out_ + i, broadcast(0.0f));
  }

  void run() {
    const size_t end = visible_[kRows - 1];
    for (size_t start = 0; start < end; start += kAttentionTile) {
      const size_t positions = end - start < kAttentionTile ? end - start : kAttentionTile;
      score(start, positions);
      for (size_t r = 0; r < kRows; ++r) soften(r, start);
      mix(start, positions);
    }
    for (size_t r = 0; r < count_; ++r) finish(r);
  }

 private:
  /// Scores of the positions, rounded up to whole vectors, into weights_.
  void score(size_t start, size_t positions) {
    const size_t vectors = divide_up(positions, kLanes);
    size_t v = 0;
    for (; v + kAttentionVectors <= vectors; v += kAttentionVectors)
      score_vectors<kAttentionVectors>(start, v);
    for (; v < vectors; ++v) score_vectors<1>(start, v);
  }

  template <size_t kVectors>
  void score_vectors(size_t start, size_t first_vector) {
    const Element* keys =
        static_cast<const Element*>(args_.keys) + (start + first_vector * kLanes) * args_.head_dim;
    F32x16 acc[kRows][kVectors];
    unrolled<kRows>(
        [&](auto r) { unrolled<kVectors>([&](auto v) { acc[r][v] = broadcast(0.0f); }); });
    const float* query = query_;
    for (size_t d = 0; d < args_.head_dim; ++d, query += kRows, keys += kLanes) {
      unrolled<kVectors>([&](auto v) [[gnu::always_inline]] {
        const F32x16 key = load_cached(keys + v * kLanes * args_.head_dim);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          acc[r][v] = fused(broadcast(query[r]), key, acc[r][v]);
        });
      });
    }
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>([&](auto v) {
        store(weights_ + r * kAttentionTile + (first_vector + v) * kLanes,
              mul(acc[r][v], broadcast(args_.scale)));
      });
    });
  }

  /// Turns a row's scores into exp(score - maximum), 0 where the row may not look.
  void soften(size_t r, size_t start) {
    float* weights = weights_ + r * kAttentionTile;
    size_t visible = visible_[r] > start ? visible_[r] - start : 0;
    visible = visible < kAttentionTile ? visible : kAttentionTile;
    for (size_t i = visible; i < kAttentionTile; ++i) weights[i] = -FLT_MAX;
    F32x16 highest = load(weights);
    for (size_t i = kLanes; i < kAttentionTile; i += kLanes)
      highest = max(load(weights + i), highest);
    const float tile_largest = lane_max(highest);
    const float largest = tile_largest > largest_[r] ? tile_largest : largest_[r];
    F32x16 sums = broadcast(0.0f);
    for (size_t i = 0; i < kAttentionTile; i += kLanes) {
      store(weights + i, exponential(sub(load(weights + i), broadcast(largest))));
      for (size_t j = visible > i ? visible - i : 0; j < kLanes; ++j) weights[i + j] = 0;
      sums = add(sums, load(weights + i));
    }
    float factor[kLanes];
    store(factor, exponential(broadcast(largest_[r] - largest)));
    factor_[r] = factor[0];
    sum_[r] = sum_[r] * factor_[r] + lane_sum(sums);
    largest_[r] = largest;
  }

  /// out = out * factor + weights . values
  void mix(size_t start, size_t positions) {
    size_t d = 0;
    for (; d + kAttentionVectors * kLanes <= padded_dim_; d += kAttentionVectors * kLanes)
      mix_vectors<kAttentionVectors>(start, positions, d);
    for (; d < padded_dim_; d += kLanes) mix_vectors<1>(start, positions, d);
  }

  template <size_t kVectors>
  void mix_vectors(size_t start, size_t positions, size_t d) {
    const Element* values = static_cast<const Element*>(args_.values) + start * padded_dim_ + d;
    F32x16 acc[kRows][kVectors];
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>([&](auto v) {
        acc[r][v] = mul(load(out_ + r * padded_dim_ + d + v * kLanes), broadcast(factor_[r]));
      });
    });
    for (size_t i = 0; i < positions; ++i, values += padded_dim_) {
      unrolled<kVectors>([&](auto v) [[gnu::always_inline]] {
        const F32x16 value = load_cached(values + v * kLanes);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          acc[r][v] = fused(broadcast(weights_[r * kAttentionTile + i]), value, acc[r][v]);
        });
      });
    }
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>(
          [&](auto v) { store(out_ + r * padded_dim_ + d + v * kLanes, acc[r][v]); });
    });
  }

  void finish(size_t r) {
    const size_t row = first_ + r;
    float* out =
        args_.out + row / args_.heads * args_.out_stride + row % args_.heads * args_.head_dim;
    for (size_t d = 0; d < args_.head_dim; d += kLanes) {
      const F32x16 mean = div(load(out_ + r * padded_dim_ + d), broadcast(sum_[r]));
      const size_t left = args_.head_dim - d;
      store_some(out + d, mean, left < kLanes ? left : kLanes);
    }
  }

  const AttentionArgs& args_;
  size_t first_, count_, padded_dim_;
  float* query_;    // [head_dim][kRows]
  float* out_;      // [kRows][padded_dim_], not yet divided by sum_
  float* weights_;  // [kRows][kAttentionTile]
  size_t visible_[kRows];
  float largest_[kRows], sum_[kRows], factor_[kRows];
};

template <typename Element>
void attend(const AttentionArgs& args) {
  const size_t rows = args.tokens * args.heads;
  for (size_t first = 0; first < rows;) {
    const size_t left = rows - first;
    const size_t count = left < kAttentionRows ? left : kAttentionRows;
    if (count == 1) {
      RowTile<1, Element>(args, first, count).run();
    } else if (count == 2) {
      RowTile<2, Element>(args, first, count).run();
    } else if (count <= 4) {
      RowTile<4, Element>(args, first, count).run();
    } else {
      RowTile<kAttentionRows, Element>(args, first, count).run();
    }
    first += count;
  }
}

}  // namespace

void write_cache(const CacheWriteArgs& args) {
  args.type == CacheType::kFloat16 ? write<uint16_t>(args) : write<float>(args);
}

void attention(const AttentionArgs& args) {
  args.type == CacheType::kFloat16 ? attend<uint16_t>(args) : attend<float>(args);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
