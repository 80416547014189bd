#include "llama_ops/attention_variants.h"

namespace thimble {

namespace avx512 {
extern const AttentionKernel kAttentionKernel;
}
namespace avx2 {
extern const AttentionKernel kAttentionKernel;
}
namespace baseline {
extern const AttentionKernel kAttentionKernel;
}

std::vector<const AttentionKernel*> attention_kernels() {
  std::vector<const AttentionKernel*> kernels;
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&avx512::kAttentionKernel);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels.push_back(&avx2::kAttentionKernel);
  }
  kernels.push_back(&baseline::kAttentionKernel);
  return kernels;
}

}  // namespace thimble
