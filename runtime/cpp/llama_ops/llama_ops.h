#pragma once

#include <executorch/runtime/kernel/operator_registry.h>

#include <vector>

namespace thimble {

/// The kernels of `llama::custom_sdpa.out` and `llama::update_cache.out`, to be passed to
/// Module::load_method. They are not in the process-wide registry, so that a process can also
/// contain ExecuTorch's own kernels of the same names.
///
/// Schemas (ExecuTorch's extension/llm/custom_ops):
///   custom_sdpa.out(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask,
///                   float drpout_p, bool is_causal, float? scale, *, Tensor(a!) out)
///   update_cache.out(Tensor value, Tensor(a!) cache, SymInt start_pos, *, Tensor(b!) out)
/// with query and out (batch, seq_len, num_heads, head_dim), key, value and cache
/// (batch, cache_len, num_key_value_heads, head_dim), all float32 and contiguous.
/// Position i of the call attends to keys 0 .. start_pos + i when is_causal, else to all
/// start_pos + seq_len. attn_mask and drpout_p are refused. update_cache does not write its `out`.
/// A bad argument fails the call with InvalidArgument and a logged sentence.
std::vector<executorch::runtime::Kernel> llama_kernels();

}  // namespace thimble
