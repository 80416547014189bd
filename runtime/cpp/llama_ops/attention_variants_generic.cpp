#include "llama_ops/attention_variants.h"

namespace thimble {

namespace baseline {
extern const AttentionKernel kAttentionKernel;
}

std::vector<const AttentionKernel*> attention_kernels() { return {&baseline::kAttentionKernel}; }

}  // namespace thimble
