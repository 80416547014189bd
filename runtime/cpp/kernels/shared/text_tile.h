#pragma once

/// \file
/// A tile of a text's keys and values as integers, and what multiplies by them.

#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/kernels.h"
#include "kernels/shared/integer_products.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/transpose.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Writes the scales of 16 rounded vectors with these largest magnitudes, as quantize_symmetric()
/// does; returns what numbers are multiplied by.
inline F32x16 inverses_of(F32x16 largest, float* scales) {
  float inverses[kLanes];
  const F32x16 scale = div(largest, broadcast(127.0f));
  store(scales, scale);
  store(inverses, div(broadcast(1.0f), scale));
  for (size_t i = 0; i < kLanes; ++i)
    if (!(scales[i] >= FLT_MIN)) scales[i] = inverses[i] = 0.0f;
  return load(inverses);
}
inline I32x16 rounded(F32x16 numbers, F32x16 inverse) {
  const F32x16 steps = max(mul(numbers, inverse), broadcast(-127.0f));
  return round_to_int(min(steps, broadcast(127.0f)));
}

/// Rounds up to 16 rows, one in each lane, as keys of a cache are rounded. Calls put(line, fours)
/// for every four columns, rounded and `bias` more; columns that do not exist are 0.
/// \param lines room for [columns padded to 4][16] floats.
/// \param scales, sums 16, of the rounded rows.
template <typename Put>
[[gnu::always_inline]] inline void round_rows(const float* from, size_t stride, size_t rows,
                                              size_t columns, int32_t bias, float* lines,
                                              float* scales, int32_t* sums, Put put) {
  transpose(from, stride, rows, columns, 1.0f, lines, kLanes);
  const size_t padded = round_up(columns, kCacheFour);
  for (size_t i = columns; i < padded; ++i) store(lines + i * kLanes, broadcast(0.0f));
  F32x16 largest = broadcast(0.0f);
  for (size_t i = 0; i < columns; ++i) {
    const F32x16 number = load(lines + i * kLanes);
    largest = max(max(number, sub(broadcast(0.0f), number)), largest);
  }
  const F32x16 inverse = inverses_of(largest, scales);
  I32x16 sum = broadcast(int32_t{0});
  for (size_t i = 0; i < padded; i += kCacheFour) {
    I32x16 four[kCacheFour];
    unrolled<kCacheFour>([&](auto j) {
      const I32x16 integer = rounded(load(lines + (i + j) * kLanes), inverse);
      sum = add(sum, integer);
      four[j] = add(integer, broadcast(bias));
    });
    put(i / kCacheFour, joined(four[0], four[1], four[2], four[3]));
  }
  store(sums, sum);
}

/// In this order: [columns / 4][kTextTile] fours of keys, [kTextTile / 4][columns] fours of values.
class TextTile {
  using Products = IntegerProducts<false>;

 public:
  static constexpr size_t kFourBytes = Products::kQueryBytes;

  /// \param memory text_tile_size() floats.
  TextTile(size_t head_dim, float* memory)
      : head_dim_(head_dim),
        padded_dim_(round_up(head_dim, kLanes)),
        key_scales_(memory),
        value_scales_(key_scales_ + kTextTile),
        lines_(value_scales_ + padded_dim_),
        key_sums_(reinterpret_cast<int32_t*>(lines_ + padded_dim_ * kLanes)),
        value_sums_(key_sums_ + kTextTile),
        keys_(reinterpret_cast<int8_t*>(value_sums_ + padded_dim_)),
        values_(keys_ + kTextTile * padded_dim_ * 2) {}

  /// Takes `count` positions from `start` on.
  [[gnu::noinline]] void take(const TextAttentionArgs& args, size_t start, size_t count) {
    for (size_t p = 0; p < count; p += kLanes) {
      const size_t rows = count - p < kLanes ? count - p : kLanes;
      int8_t* to = keys_ + p * kFourBytes;
      round_rows(args.k + (start + p) * args.k_stride, args.k_stride, rows, head_dim_, 0, lines_,
                 key_scales_ + p, key_sums_ + p, [&](size_t line, I32x16 fours) {
                   Products::put_queries(fours, to + line * key_step());
                 });
    }
    const float* values = args.v + start * args.v_stride;
    for (size_t d = 0; d < head_dim_; d += kLanes) {
      const size_t columns = head_dim_ - d;
      columns < kLanes ? take_values<false>(values + d, args.v_stride, count, columns, d)
                       : take_values<true>(values + d, args.v_stride, count, kLanes, d);
    }
  }

  /// Prefetches rows from `first` to before `last`: they lie so far apart that processors do not.
  void prefetch_rows(const TextAttentionArgs& args, size_t first, size_t last) const {
    for (size_t row = first; row < last && row < args.rows; ++row) {
      for (size_t d = 0; d < head_dim_; d += kLanes) {
        prefetch<kLanes>(args.k + row * args.k_stride + d);
        prefetch<kLanes>(args.v + row * args.v_stride + d);
      }
    }
  }

  const float* key_scales() const { return key_scales_; }
  const float* value_scales() const { return value_scales_; }
  const int32_t* key_sums() const { return key_sums_; }
  const int32_t* value_sums() const { return value_sums_; }
  const int8_t* keys() const { return keys_; }
  const int8_t* values() const { return values_; }
  /// Bytes from one line of fours to the next.
  size_t key_step() const { return kTextTile * kFourBytes; }
  size_t value_step() const { return padded_dim_ * kFourBytes; }

  /// Memory for round_rows(), between calls.
  float* lines() const { return lines_; }

 private:
  /// Up to 16 columns of values, from column d on.
  template <bool kWhole>
  void take_values(const float* from, size_t stride, size_t positions, size_t columns, size_t d) {
    const auto at = [&](size_t p) {
      return kWhole ? load(from + p * stride) : load_some(from + p * stride, columns);
    };
    F32x16 largest = broadcast(0.0f);
    for (size_t p = 0; p < positions; ++p)
      largest = max(max(at(p), sub(broadcast(0.0f), at(p))), largest);
    const F32x16 inverse = inverses_of(largest, value_scales_ + d);
    I32x16 sum = broadcast(int32_t{0});
    int8_t* to = values_ + d * kFourBytes;
    for (size_t p = 0; p < positions; p += kCacheFour, to += value_step()) {
      I32x16 four[kCacheFour];
      unrolled<kCacheFour>([&](auto i) {
        four[i] = p + i < positions ? rounded(at(p + i), inverse) : broadcast(int32_t{0});
        sum = add(sum, four[i]);
      });
      Products::put_queries(joined(four[0], four[1], four[2], four[3]), to);
    }
    store(value_sums_ + d, sum);
  }

  const size_t head_dim_, padded_dim_;
  float* const key_scales_;    // [kTextTile]
  float* const value_scales_;  // [padded_dim_]
  float* const lines_;         // [padded_dim_][16]
  int32_t* const key_sums_;    // [kTextTile]
  int32_t* const value_sums_;  // [padded_dim_]
  int8_t* const keys_;
  int8_t* const values_;
};

/// Rows of fours of bytes, and what is multiplied by them: kVectors of lanes.
struct FourRows {
  const uint8_t* lanes;  ///< [lines][kVectors][64]
  const int8_t* rows;    ///< [lines][rows] fours
  size_t step;           ///< bytes from one line of rows to the next
  size_t lines;
};

/// Calls finish(row, sums) for kCount rows from `row` on; sums start with begin(row).
template <size_t kCount, size_t kVectors, typename Begin, typename Finish>
[[gnu::always_inline]] inline void multiply_fours(const FourRows& fours, size_t row, Begin begin,
                                                  Finish finish) {
  using Products = IntegerProducts<false>;
  I32x16 acc[kCount][kVectors];
  unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
    const I32x16 first = begin(row + r);
    unrolled<kVectors>([&](auto v) { acc[r][v] = first; });
  });
  const uint8_t* lanes = fours.lanes;
  const int8_t* rows = fours.rows + row * Products::kQueryBytes;
  for (size_t line = 0; line < fours.lines; ++line, lanes += kVectors * kLineBytes)
    Products::add_keys(lanes, kLineBytes, rows + line * fours.step, acc);
  unrolled<kCount>([&](auto r) [[gnu::always_inline]] { finish(row + r, acc[r]); });
}

/// The same for rows up to `last`: kCount at a time, then half as many.
template <size_t kCount, size_t kVectors, typename Begin, typename Finish>
[[gnu::always_inline]] inline void multiply_all_fours(const FourRows& fours, size_t row,
                                                      size_t last, Begin begin, Finish finish) {
  for (; row + kCount <= last; row += kCount)
    multiply_fours<kCount, kVectors>(fours, row, begin, finish);
  if constexpr (kCount > 1)
    multiply_all_fours<kCount / 2, kVectors>(fours, row, last, begin, finish);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
