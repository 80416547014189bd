/// In place of xnnpack.cpp in a runner that was built for our own CPU delegate alone.

#include "model/xnnpack.h"

namespace thimble {

std::vector<executorch::runtime::Kernel> operator_kernels() { return {}; }

ThreadPoolUse::ThreadPoolUse(int32_t) {}

ThreadPoolUse::~ThreadPoolUse() = default;

}  // namespace thimble
