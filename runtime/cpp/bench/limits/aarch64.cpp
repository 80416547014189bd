#include <arm_neon.h>

#include "bench/limits/limits.h"
#include "kernels/select/cpu_features.h"

namespace thimble::bench {
namespace {

uint64_t read(const uint8_t* data, size_t size) {
  uint8x16_t a = vdupq_n_u8(0), b = a, c = a, d = a;
  for (size_t i = 0; i < size; i += 64) {
    a = veorq_u8(a, vld1q_u8(data + i));
    b = veorq_u8(b, vld1q_u8(data + i + 16));
    c = veorq_u8(c, vld1q_u8(data + i + 32));
    d = veorq_u8(d, vld1q_u8(data + i + 48));
  }
  a = veorq_u8(veorq_u8(a, b), veorq_u8(c, d));
  return vgetq_lane_u64(vreinterpretq_u64_u8(a), 0);
}

// Sixteen independent chains, more than latency times pipes.
#define CLOBBERED                                                                                 \
  "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", \
      "v22", "v23", "v31"

[[gnu::target("arch=armv8.2-a+dotprod")]] uint64_t multiply_dotprod(size_t loops) {
  uint64_t sum;
  asm volatile(
      "movi v31.16b, #3\n1:\n"
      ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23\n"
      "sdot v\\i\\().4s, v31.16b, v31.16b\n.endr\n"
      "subs %1, %1, #1\nb.ne 1b\nfmov %0, d0"
      : "=r"(sum), "+r"(loops)::CLOBBERED);
  return sum;
}

[[gnu::target("arch=armv8.2-a+i8mm")]] uint64_t multiply_i8mm(size_t loops) {
  uint64_t sum;
  asm volatile(
      "movi v31.16b, #3\n1:\n"
      ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23\n"
      "smmla v\\i\\().4s, v31.16b, v31.16b\n.endr\n"
      "subs %1, %1, #1\nb.ne 1b\nfmov %0, d0"
      : "=r"(sum), "+r"(loops)::CLOBBERED);
  return sum;
}

#undef CLOBBERED

}  // namespace

Limits limits(uint32_t features) {
  if ((features & kernels::kNeonI8mm) != 0) {
    return {read, multiply_i8mm, size_t{16} * 64, "smmla"};
  }
  if ((features & kernels::kNeonDotprod) != 0) {
    return {read, multiply_dotprod, size_t{16} * 32, "sdot"};
  }
  return {read, nullptr, 0, ""};
}

Limits limits() { return limits(kernels::cpu_features()); }

}  // namespace thimble::bench
