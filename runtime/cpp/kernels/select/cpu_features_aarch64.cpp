#include "kernels/select/cpu_features.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#else
#include <sys/auxv.h>
#endif

namespace thimble::kernels {

namespace {

#if defined(__APPLE__)

bool has(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_dotprod() { return has("hw.optional.arm.FEAT_DotProd"); }
bool has_i8mm() { return has("hw.optional.arm.FEAT_I8MM"); }

#else

// Bits of the Linux kernel's interface (arch/arm64/include/uapi/asm/hwcap.h).
constexpr unsigned long kHwcapDotprod = 1ul << 20, kHwcap2I8mm = 1ul << 13;

bool has_dotprod() { return (getauxval(AT_HWCAP) & kHwcapDotprod) != 0; }
bool has_i8mm() { return (getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0; }

#endif

}  // namespace

uint32_t cpu_features() {
  uint32_t features = 0;
  if (has_dotprod()) features |= kNeonDotprod;
  if (has_i8mm()) features |= kNeonI8mm;
  return features;
}

}  // namespace thimble::kernels
