#include <cmath>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr float kSigns[4][16] = {
    {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
    {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
    {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
    {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1},
};

/// a + b in lanes whose bit kApart is 0, where b is the lane kApart behind, and a - b in the
/// others. A product with 1 or -1 is exact, so the sum is rounded once.
template <int kApart>
inline F32x16 butterfly(F32x16 a, const float* signs) {
  return fused(a, load(signs), exchange<kApart>(a));
}

template <size_t kVectors>
void rotate(const float* x, size_t n, float* y) {
  const F32x16 scale = broadcast(1.0f / std::sqrt(static_cast<float>(16 * kVectors)));
  for (const float* end = x + n; x != end; x += 16 * kVectors, y += 16 * kVectors) {
    F32x16 part[kVectors];
    unrolled<kVectors>([&](auto i) {
      part[i] = butterfly<1>(load(x + 16 * i), kSigns[0]);
      part[i] = butterfly<2>(part[i], kSigns[1]);
      part[i] = butterfly<4>(part[i], kSigns[2]);
      part[i] = butterfly<8>(part[i], kSigns[3]);
    });
    for (size_t apart = 1; apart < kVectors; apart *= 2) {
      for (size_t i = 0; i < kVectors; ++i) {
        if ((i & apart) != 0) continue;
        const F32x16 first = part[i], second = part[i + apart];
        part[i] = add(first, second);
        part[i + apart] = sub(first, second);
      }
    }
    unrolled<kVectors>([&](auto i) { store(y + 16 * i, mul(part[i], scale)); });
  }
}

}  // namespace

void hadamard(const float* x, size_t n, size_t block, float* y) {
  if (block == 16) return rotate<1>(x, n, y);
  if (block == 32) return rotate<2>(x, n, y);
  rotate<4>(x, n, y);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
