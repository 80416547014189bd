#include "llama_ops/llama_ops.h"

#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>

#include "llama_ops/attention.h"
#include "llama_ops/attention_variants.h"

namespace thimble {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

/// Logs the sentence and fails the kernel call when `condition` does not hold.
#define THIMBLE_CHECK(context, condition, out, ...) \
  ET_KERNEL_CHECK_MSG(context, condition, InvalidArgument, out, __VA_ARGS__)

bool is_plain(const Tensor& tensor) {
  return tensor.dim() == 4 && tensor.scalar_type() == ScalarType::Float &&
         executorch::runtime::is_contiguous_dim_order(tensor.dim_order().data(), 4);
}

/// Whether a mask has a float32 number for each of `seq_len` positions and at least `num_keys`
/// keys.
bool is_mask(const Tensor& mask, int64_t seq_len, int64_t num_keys) {
  return mask.dim() == 2 && mask.scalar_type() == ScalarType::Float &&
         executorch::runtime::is_contiguous_dim_order(mask.dim_order().data(), 2) &&
         mask.size(0) == seq_len && mask.size(1) >= num_keys;
}

Tensor& custom_sdpa_out(KernelRuntimeContext& context, const Tensor& query, const Tensor& key,
                        const Tensor& value, int64_t start_pos,
                        const executorch::aten::optional<Tensor>& attn_mask, double dropout,
                        bool is_causal, executorch::aten::optional<double> scale, Tensor& out) {
  THIMBLE_CHECK(context, is_plain(query) && is_plain(key) && is_plain(value), out,
                "custom_sdpa: query, key and value must be contiguous float32 tensors of 4 "
                "dimensions (batch, positions, heads, head_dim)");
  THIMBLE_CHECK(context, dropout == 0.0, out, "custom_sdpa: dropout is %f, but must be 0", dropout);
  const int64_t seq_len = query.size(1), cache_len = key.size(1);
  const int64_t num_heads = query.size(2), num_key_value_heads = key.size(2);
  bool same = true;
  for (int dim = 0; dim < 4; ++dim) same = same && key.size(dim) == value.size(dim);
  THIMBLE_CHECK(context, same, out, "custom_sdpa: key and value differ in shape");
  THIMBLE_CHECK(context, key.size(0) == query.size(0) && key.size(3) == query.size(3), out,
                "custom_sdpa: query and key differ in batch or head_dim");
  THIMBLE_CHECK(context, seq_len > 0 && query.size(0) > 0 && query.size(3) > 0, out,
                "custom_sdpa: query is empty");
  THIMBLE_CHECK(context, num_key_value_heads > 0 && num_heads % num_key_value_heads == 0, out,
                "custom_sdpa: %" PRId64 " query heads is not a multiple of %" PRId64
                " key/value heads",
                num_heads, num_key_value_heads);
  THIMBLE_CHECK(context, start_pos >= 0 && start_pos <= cache_len - seq_len, out,
                "custom_sdpa: %" PRId64 " positions from %" PRId64
                " do not fit a cache of %" PRId64,
                seq_len, start_pos, cache_len);
  THIMBLE_CHECK(context,
                !attn_mask.has_value() || is_mask(*attn_mask, seq_len, start_pos + seq_len), out,
                "custom_sdpa: attn_mask must be a contiguous float32 tensor of %" PRId64
                " positions and at least %" PRId64 " keys",
                seq_len, start_pos + seq_len);
  THIMBLE_CHECK(context, !attn_mask.has_value() || !is_causal, out,
                "custom_sdpa: attn_mask and is_causal exclude each other: leave one out");
  THIMBLE_CHECK(context, out.scalar_type() == ScalarType::Float, out,
                "custom_sdpa: out must be float32");
  THIMBLE_CHECK(context, executorch::runtime::resize_tensor(out, query.sizes()) == Error::Ok, out,
                "custom_sdpa: out cannot take the shape of query");

  Attention attention;
  attention.batch = query.size(0);
  attention.seq_len = seq_len;
  attention.num_heads = num_heads;
  attention.num_key_value_heads = num_key_value_heads;
  attention.head_dim = query.size(3);
  attention.cache_len = cache_len;
  attention.start_pos = start_pos;
  attention.causal = is_causal;
  attention.scale = static_cast<float>(
      scale.has_value() ? *scale : 1.0 / std::sqrt(static_cast<double>(query.size(3))));
  attention.query = query.const_data_ptr<float>();
  attention.key = key.const_data_ptr<float>();
  attention.value = value.const_data_ptr<float>();
  attention.out = out.mutable_data_ptr<float>();
  if (attn_mask.has_value()) {
    attention.mask = attn_mask->const_data_ptr<float>();
    attention.mask_len = attn_mask->size(1);
  }

  static const AttentionKernel& kernel = *attention_kernels().front();
  const int64_t workers = attention_workers(attention, executorch::extension::get_thread_count());
  const auto scratch =
      context.allocate_temp(attention_scratch_floats(attention, workers) * sizeof(float), 64);
  THIMBLE_CHECK(context, scratch.ok(), out,
                "custom_sdpa: not enough memory for %" PRId64 " workers", workers);
  attend(attention, kernel, workers, static_cast<float*>(*scratch));
  return out;
}

Tensor& update_cache_out(KernelRuntimeContext& context, const Tensor& value, Tensor& cache,
                         int64_t start_pos, Tensor& out) {
  THIMBLE_CHECK(context, is_plain(value) && is_plain(cache), out,
                "update_cache: value and cache must be contiguous float32 tensors of 4 dimensions "
                "(batch, positions, heads, head_dim)");
  const bool same = value.size(0) == cache.size(0) && value.size(2) == cache.size(2) &&
                    value.size(3) == cache.size(3);
  THIMBLE_CHECK(context, same, out,
                "update_cache: value and cache differ in batch, heads or head_dim");
  const int64_t seq_len = value.size(1), cache_len = cache.size(1);
  THIMBLE_CHECK(context, start_pos >= 0 && start_pos <= cache_len - seq_len, out,
                "update_cache: %" PRId64 " positions from %" PRId64
                " do not fit a cache of %" PRId64,
                seq_len, start_pos, cache_len);

  const int64_t row = value.size(2) * value.size(3);
  const float* from = value.const_data_ptr<float>();
  float* to = cache.mutable_data_ptr<float>();
  const auto copy = [&](int64_t first, int64_t last) {  // positions of all sequences, in order
    while (first < last) {
      const int64_t sequence = first / seq_len, position = first % seq_len;
      const int64_t count = std::min(last - first, seq_len - position);
      std::memcpy(to + (sequence * cache_len + start_pos + position) * row, from + first * row,
                  sizeof(float) * static_cast<size_t>(count * row));
      first += count;
    }
  };
  // Starting a thread pays off for a quarter of a megabyte.
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, row));
  const int64_t positions = value.size(0) * seq_len;
  if (positions <= grain || !executorch::extension::parallel_for(0, positions, grain, copy)) {
    copy(0, positions);
  }
  return out;
}

#undef THIMBLE_CHECK

constexpr const char kCustomSdpa[] = "llama::custom_sdpa.out";
constexpr const char kUpdateCache[] = "llama::update_cache.out";

}  // namespace

std::vector<executorch::runtime::Kernel> llama_kernels() {
  using executorch::extension::make_boxed_kernel;
  return {make_boxed_kernel(kCustomSdpa, EXECUTORCH_FN(custom_sdpa_out, kCustomSdpa)),
          make_boxed_kernel(kUpdateCache, EXECUTORCH_FN(update_cache_out, kUpdateCache))};
}

}  // namespace thimble
