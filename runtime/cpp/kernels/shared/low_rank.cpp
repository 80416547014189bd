#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// Vectors that are worked on together: with kFloatRows rows of each, as many as fit the registers.
constexpr size_t kVectors = 4;

/// Fewer than 16 numbers, followed by zeros.
inline F32x16 load_some_halves(const uint16_t* from, size_t count) {
  uint16_t lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(uint16_t));
  return load_half(lanes);
}

/// Numbers m .. m + kRows - 1 of columns j .. j + kRanks - 1 of t.
template <size_t kRows, size_t kRanks>
void dot(const ShrinkArgs& args, size_t m, size_t j) {
  const float* x = args.x + m * args.x_stride;
  const uint16_t* a = args.a + j * args.columns;
  F32x16 acc[kRows][kRanks];
  unrolled<kRows>([&](auto r) { unrolled<kRanks>([&](auto c) { acc[r][c] = broadcast(0.0f); }); });
  const auto add_products = [&](auto load_x, auto load_a) [[gnu::always_inline]] {
    F32x16 rows[kRows];
    unrolled<kRows>([&](auto r) { rows[r] = load_x(x + r * args.x_stride); });
    unrolled<kRanks>([&](auto c) [[gnu::always_inline]] {
      const F32x16 weights = load_a(a + c * args.columns);
      unrolled<kRows>([&](auto r) { acc[r][c] = fused(rows[r], weights, acc[r][c]); });
    });
  };
  size_t k = 0;
  for (; k + kLanes <= args.columns; k += kLanes) {
    add_products([k](const float* row) [[gnu::always_inline]] { return load(row + k); },
                 [k](const uint16_t* row) [[gnu::always_inline]] { return load_half(row + k); });
  }
  if (const size_t rest = args.columns - k; rest > 0) {
    add_products([=](const float* row) { return load_some(row + k, rest); },
                 [=](const uint16_t* row) { return load_some_halves(row + k, rest); });
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kRanks>([&](auto c) {
      args.t[(m + r) * args.t_stride + j + c] = lane_sum(acc[r][c]) * args.scale;
    });
  });
}

template <size_t kRows>
void dot_all(const ShrinkArgs& args, size_t m) {
  size_t j = 0;
  for (; j + kVectors <= args.rank; j += kVectors) dot<kRows, kVectors>(args, m, j);
  for (; j < args.rank; ++j) dot<kRows, 1>(args, m, j);
}

/// Adds to columns n .. n + 16 * kCount - 1 of rows m .. m + kRows - 1, or to the last `some`.
template <size_t kRows, size_t kCount, bool kSome = false>
void add_vectors(const ExpandArgs& args, size_t m, size_t n, size_t some = 0) {
  const float* t = args.t + m * args.t_stride;
  F32x16 acc[kRows][kCount];
  unrolled<kRows>([&](auto r) { unrolled<kCount>([&](auto c) { acc[r][c] = broadcast(0.0f); }); });
  for (size_t j = 0; j < args.rank; ++j) {
    const uint16_t* b = args.b + j * args.b_stride + n;
    unrolled<kCount>([&](auto c) [[gnu::always_inline]] {
      const F32x16 weights = kSome ? load_some_halves(b, some) : load_half(b + c * kLanes);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        acc[r][c] = fused(broadcast(t[r * args.t_stride + j]), weights, acc[r][c]);
      });
    });
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kCount>([&](auto c) {
      float* y = args.y + (m + r) * args.y_stride + n + c * kLanes;
      if constexpr (kSome) {
        store_some(y, add(load_some(y, some), acc[r][c]), some);
      } else {
        store(y, add(load(y), acc[r][c]));
      }
    });
  });
}

template <size_t kRows>
void add_rows(const ExpandArgs& args, size_t m) {
  size_t n = 0;
  for (; n + kVectors * kLanes <= args.columns; n += kVectors * kLanes)
    add_vectors<kRows, kVectors>(args, m, n);
  for (; n + kLanes <= args.columns; n += kLanes) add_vectors<kRows, 1>(args, m, n);
  if (n < args.columns) add_vectors<kRows, 1, true>(args, m, n, args.columns - n);
}

}  // namespace

void shrink(const ShrinkArgs& args) {
  size_t m = 0;
  for (; m + kFloatRows <= args.rows; m += kFloatRows) dot_all<kFloatRows>(args, m);
  for (; m < args.rows; ++m) dot_all<1>(args, m);
}

void expand(const ExpandArgs& args) {
  size_t m = 0;
  for (; m + kFloatRows <= args.rows; m += kFloatRows) add_rows<kFloatRows>(args, m);
  for (; m < args.rows; ++m) add_rows<1>(args, m);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
