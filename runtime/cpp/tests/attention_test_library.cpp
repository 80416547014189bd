/// The attention kernels behind a C function, for the comparison with torch in Python.

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include <cstring>
#include <vector>

#include "llama_ops/attention.h"
#include "llama_ops/attention_variants.h"

extern "C" {

/// The name of kernel `index` of those this CPU can run, null past the last.
__attribute__((visibility("default"))) const char* attention_test_name(int index) {
  const auto kernels = thimble::attention_kernels();
  return static_cast<size_t>(index) < kernels.size() ? kernels[index]->name : nullptr;
}

/// Runs kernel `index` with two workers. `shape` is batch, seq_len, num_heads,
/// num_key_value_heads, head_dim, cache_len, start_pos, causal, mask_len. `mask` may be null.
__attribute__((visibility("default"))) void attention_test_run(int index, const int64_t* shape,
                                                               float scale, const float* query,
                                                               const float* key, const float* value,
                                                               const float* mask, float* out) {
  const thimble::Attention attention{shape[0], shape[1], shape[2],      shape[3], shape[4],
                                     shape[5], shape[6], shape[7] != 0, scale,    query,
                                     key,      value,    out,           mask,     shape[8]};
  constexpr int64_t kWorkers = 2;
  std::vector<float> scratch(thimble::attention_scratch_floats(attention, kWorkers), 1e30f);
  thimble::attend(attention, *thimble::attention_kernels()[index], kWorkers, scratch.data());
}
}
