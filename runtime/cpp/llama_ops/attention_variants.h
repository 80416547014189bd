#pragma once

#include <vector>

#include "llama_ops/attention_kernel.h"

namespace thimble {

/// The attention kernels that were compiled for this architecture and that this CPU can run, best
/// first. Never empty.
std::vector<const AttentionKernel*> attention_kernels();

}  // namespace thimble
