/// In place of xnnpack.cpp in a runner that was built for our own CPU delegate alone.

#include "runner/xnnpack.h"

namespace thimble {

std::vector<executorch::runtime::Kernel> operator_kernels() { return {}; }

int32_t set_pool_threads(int32_t) { return 1; }

}  // namespace thimble
