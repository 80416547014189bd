#include <cpuid.h>

#include "kernels/select/cpu_features.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace thimble::kernels {
namespace {

/// Whether the CPU converts halves (CPUID leaf 1: bit 29 of ECX), which clang 14 cannot ask.
/// Where it has AVX2 too, the system saves the registers.
bool has_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

/// Whether the CPU has AVX-VNNI (Intel SDM, CPUID leaf 7, subleaf 1: bit 4 of EAX).
bool has_avx_vnni() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1u << 4) != 0;
}

#if defined(__linux__)

/// Whether the CPU has AMX with int8 products (Intel SDM, CPUID leaf 7: bits 24 and 25 of EDX) and
/// the kernel saves its registers (bits 17 and 18 of XCR0).
bool has_amx_int8() {
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kTileAndInt8 = 1u << 24 | 1u << 25, kTileState = 1u << 17 | 1u << 18;
  if ((edx & kTileAndInt8) != kTileAndInt8) return false;
  asm("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kTileState) == kTileState;
}

/// Requests permission to use the tiles of AMX (Linux 5.16,
/// Documentation/arch/x86/xstate.rst). The permission holds for all threads.
bool may_use_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool has_amx_int8() { return false; }
bool may_use_tiles() { return false; }

#endif

}  // namespace

uint32_t cpu_features() {
  __builtin_cpu_init();
  uint32_t features = 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
    features |= has_avx_vnni() ? kAvx2 | kAvxVnni : kAvx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    features |= kAvx512;
  if (__builtin_cpu_supports("avx512vnni")) features |= kAvx512Vnni;
  if (has_amx_int8() && may_use_tiles()) features |= kAmxInt8;
  return features;
}

}  // namespace thimble::kernels
