/// \file
/// What several kernels share: constants, the exponentials, sums and extremes over a threadgroup.
///
/// Every operation is IEEE, in the order of runtime/cpp/kernels/, and fused only by fma(). So the
/// results of a device that keeps subnormal numbers are bit-identical to those of the CPU delegate's
/// `scalar` kernels.

#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

using namespace metal;

/// Rows of a block of packed weights, numbers of a vector, positions of a block of keys.
constant constexpr uint kLanes = 16;
/// The smallest normal float.
constant constexpr float kSmallest = 1.17549435e-38f;
constant constexpr float kLowest = -3.40282347e+38f;

/// The first where it compares as larger (smaller), else the second: never a NaN that came first.
inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }

constant float kTaylor[7] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f,
                             0.5f,          1.0f,          1.0f};

/// exp(x) as kernels/shared/exponential.h has it: Cody and Waite's reduction, Taylor's polynomial.
inline float exponential(float x) {
  x = smaller(larger(x, -87.0f), 88.0f);
  const float n = rint(x * 1.44269502f);
  float r = fma(n, -0.693145752f, x);
  r = fma(n, -1.42860677e-06f, r);
  float p = 1.0f / 5040.0f;
  for (uint i = 0; i < 7; ++i) p = fma(p, r, kTaylor[i]);
  return p * as_type<float>((int(n) + 127) << 23);
}

constant float kMinimax[6] = {0.0013398875f, 0.00961843692f, 0.0555033237f,
                              0.240226477f,  0.693147182f,   1.0f};

/// 2^x as kernels/shared/exponential.h has it; 2^-125 below -125 and for a NaN.
inline float exponential2(float x) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = larger(x, -125.0f);
  const float shifted = x + shift;
  const float r = x - (shifted - shift);
  float p = 0.00015353362f;
  for (uint i = 0; i < 6; ++i) p = fma(p, r, kMinimax[i]);
  return as_type<float>(as_type<uint>(p) + (as_type<uint>(shifted) << 23));
}

/// gate / (1 + exp(-gate)) * up
inline float swiglu(float gate, float up) {
  return gate / (1.0f + exponential(0.0f - gate)) * up;
}

/// The sum of 16 lanes: i + (i + 8), then + 4, + 2, + 1 apart.
inline float lane_sum(threadgroup const float* lanes) {
  float sums[kLanes];
  for (uint i = 0; i < kLanes; ++i) sums[i] = lanes[i];
  for (uint apart = kLanes / 2; apart > 0; apart /= 2)
    for (uint i = 0; i < apart; ++i) sums[i] += sums[i + apart];
  return sums[0];
}

/// 1 / sqrt(mean of x^2 + eps) of n numbers. The squares' sum: 16 fused chains, of equal
/// index % 16. All threads of a threadgroup, 16 or more, call it and get the same; when it returns,
/// all have read x.
/// \param lanes room for 16, which no thread uses any more.
inline float norm_scale(device const float* x, uint n, float eps, threadgroup float* lanes,
                        uint thread_index) {
  if (thread_index < kLanes) {
    float sum = 0.0f;
    for (uint i = thread_index; i < n; i += kLanes) sum = fma(x[i], x[i], sum);
    lanes[thread_index] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return 1.0f / sqrt(lane_sum(lanes) / float(n) + eps);
}
