#pragma once

/// \file
/// A tile of a text's keys and values as integers, and what multiplies by them.

#include <cfloat>
#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/kernels.h"
#include "kernels/shared/integer_products.h"
#include "kernels/shared/symmetric.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Rounded in this order: [columns / 4][kTextTile] fours of keys, [kTextTile / 4][columns] fours of
/// values.
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
        key_sums_(reinterpret_cast<int32_t*>(value_scales_ + padded_dim_)),
        value_sums_(key_sums_ + kTextTile),
        keys_(reinterpret_cast<int8_t*>(value_sums_ + padded_dim_)),
        values_(keys_ + kTextTile * padded_dim_ * 2) {}

  /// Takes `count` positions from `start` on.
  [[gnu::noinline]] void take(const TextAttentionArgs& args, size_t start, size_t count) {
    for (size_t p = 0; p < count; ++p) take_key(args.k + (start + p) * args.k_stride, p);
    const float* values = args.v + start * args.v_stride;
    for (size_t d = 0; d < head_dim_; d += kLanes) {
      const size_t columns = head_dim_ - d < kLanes ? head_dim_ - d : kLanes;
      take_values({values + d, args.v_stride, count, columns}, d);
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

 private:
  /// Up to 16 columns of values.
  struct Columns {
    const float* first;
    size_t stride;
    size_t positions;
    size_t count;

    /// Those of a position, 0 where it does not exist.
    F32x16 at(size_t position) const {
      if (position >= positions) return broadcast(0.0f);
      const float* from = first + position * stride;
      return count == kLanes ? load(from) : load_some(from, count);
    }
  };

  void take_key(const float* key, size_t p) {
    int32_t sum = 0;
    int8_t* to = keys_ + p * kFourBytes;
    key_scales_[p] =
        quantize_symmetric(key, head_dim_, [&](size_t, size_t count, const int8_t* lanes) {
          for (size_t i = 0; i < count; i += Products::kColumns, to += key_step())
            Products::put_query(lanes + i, to);
          for (size_t i = 0; i < kLanes; ++i) sum += lanes[i];
        });
    key_sums_[p] = sum;
  }

  void take_values(const Columns& columns, size_t d) {
    F32x16 largest = broadcast(0.0f);
    for (size_t p = 0; p < columns.positions; ++p) {
      const F32x16 value = columns.at(p);
      largest = max(max(value, sub(broadcast(0.0f), value)), largest);
    }
    float* scales = value_scales_ + d;
    float inverses[kLanes];
    store(scales, div(largest, broadcast(127.0f)));
    store(inverses, div(broadcast(127.0f), largest));
    for (size_t i = 0; i < kLanes; ++i)
      if (!(scales[i] >= FLT_MIN)) scales[i] = inverses[i] = 0.0f;
    const F32x16 inverse = load(inverses), lowest = broadcast(-127.0f), most = broadcast(127.0f);
    I32x16 sums = broadcast(int32_t{0});
    int8_t* to = values_ + d * kFourBytes;
    for (size_t p = 0; p < columns.positions; p += kCacheFour, to += value_step()) {
      I32x16 four[kCacheFour];
      unrolled<kCacheFour>([&](auto i) {
        four[i] = round_to_int(min(max(mul(columns.at(p + i), inverse), lowest), most));
        sums = add(sums, four[i]);
      });
      int32_t fours[kLanes];
      store(fours, joined(four[0], four[1], four[2], four[3]));
      const auto* bytes = reinterpret_cast<const int8_t*>(fours);
      unrolled<kLanes>(
          [&](auto i) { Products::put_query(bytes + i * kCacheFour, to + i * kFourBytes); });
    }
    store(value_sums_ + d, sums);
  }

  const size_t head_dim_, padded_dim_;
  float* const key_scales_;    // [kTextTile]
  float* const value_scales_;  // [padded_dim_]
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
