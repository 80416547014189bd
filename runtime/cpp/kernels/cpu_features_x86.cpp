#include "kernels/cpu_features.h"

namespace thimble::kernels {

uint32_t cpu_features() {
  __builtin_cpu_init();
  uint32_t features = 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    features |= kAvx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    features |= kAvx512;
  if (__builtin_cpu_supports("avx512vnni")) features |= kAvx512Vnni;
  return features;
}

}  // namespace thimble::kernels
