// Metal's attention on the shim, heads and cache included: scalar's bits, whatever the order of
// threads and however the positions are cut up.

#include "delegate/metal/writer.h"
#include "delegate/session/kv_cache.h"
#include "tests/metal/problem.h"

namespace {

using namespace thimble;
using kernels::CacheType;
using metal::Kernel;
using test::expect;

const kernels::Variant& scalar = kernels::scalar::kVariant;

struct Shape {
  size_t query_heads, key_heads, head_dim, start_pos, rows;
};

uint32_t narrow(size_t number) { return static_cast<uint32_t>(number); }

/// Queries, keys and values side by side, as a linear leaves them, and a cache filled so far.
class AttentionProblem {
 public:
  AttentionProblem(const Shape& shape, CacheType type, float spread)
      : shape_(shape),
        stride_((shape.query_heads + 2 * shape.key_heads) * shape.head_dim),
        geometry_{shape.key_heads, shape.head_dim, shape.start_pos + shape.rows + 5, type},
        qkv_(test::random_floats(shape.rows * stride_, 7, spread)),
        // Norm weights of queries and keys, cosines, sines.
        floats_(test::random_floats(2 * shape.head_dim + geometry_.capacity * shape.head_dim, 6)),
        filled_(std::move(*cpu::KvCache::allocate(geometry_))) {
    const std::vector<float> before =
        test::random_floats(2 * shape.head_dim * shape.start_pos * shape.key_heads, 5, spread);
    const float* at = before.data();
    for (size_t head = 0; head < shape.key_heads; ++head) {
      for (size_t position = 0; position < shape.start_pos; ++position) {
        scalar.write_cache({at, at + shape.head_dim, shape.head_dim, position, type,
                            filled_.keys(head), filled_.values(head)});
        at += 2 * shape.head_dim;
      }
    }
  }

  /// Outputs by scalar, and its cache behind them.
  std::vector<float> expected() {
    cpu::KvCache cache = std::move(*filled_.copy(shape_.start_pos));
    std::vector<float> qkv = qkv_;
    const size_t dim = shape_.head_dim, group = shape_.query_heads / shape_.key_heads;
    for (size_t row = 0; row < shape_.rows; ++row) {
      const size_t position = shape_.start_pos + row;
      for (size_t head = 0; head < shape_.query_heads + shape_.key_heads; ++head) {
        float* x = &qkv[row * stride_ + head * dim];
        const bool is_query = head < shape_.query_heads;
        scalar.rms_norm(x, floats_.data() + (is_query ? 0 : dim), 1e-5f, dim, x);
        scalar.rope(x, 1, dim, cosines() + position * (dim / 2), sines() + position * (dim / 2));
        if (is_query) continue;
        const size_t index = head - shape_.query_heads;
        scalar.write_cache({x, x + shape_.key_heads * dim, dim, position, geometry_.type,
                            cache.keys(index), cache.values(index)});
      }
    }
    std::vector<float> outputs(shape_.rows * shape_.query_heads * dim);
    std::vector<float> scratch(kernels::attention_scratch_size(dim));
    for (size_t head = 0; head < shape_.key_heads; ++head) {
      scalar.attention({&qkv[head * group * dim], stride_, shape_.rows, group, dim,
                        shape_.start_pos, kScale, geometry_.type, cache.keys(head),
                        cache.values(head), &outputs[head * group * dim], shape_.query_heads * dim,
                        scratch.data()});
    }
    append_cache(cache, &outputs);
    return outputs;
  }

  /// The same by Metal's kernels; empty when one fails.
  std::vector<float> computed(metal_shim::Order order, bool in_splits) {
    cpu::KvCache cache = std::move(*filled_.copy(shape_.start_pos));
    std::vector<float> qkv = qkv_;
    const size_t dim = shape_.head_dim;
    if (!prepare(order, cache, qkv.data())) return {};
    const AttentionParams params = attention_params();
    test::Guarded<float> outputs(shape_.rows * shape_.query_heads * dim);
    const size_t type = static_cast<size_t>(geometry_.type);
    const auto kernel = [&](Kernel first) {
      return static_cast<Kernel>(static_cast<size_t>(first) + type);
    };
    bool ran;
    if (in_splits) {
      std::vector<float> partials(shape_.query_heads * params.splits * metal::kPartialFloats);
      ran = test::run_kernel(kernel(Kernel::kAttentionSplitFloat16), order, params,
                             {qkv.data(), cache.keys(0), partials.data()}, shape_.query_heads,
                             params.splits) &&
            test::run_kernel(Kernel::kAttentionMerge, order, params,
                             {partials.data(), outputs.data()}, shape_.query_heads);
    } else {
      ran = test::run_kernel(kernel(Kernel::kAttentionFloat16), order, params,
                             {qkv.data(), cache.keys(0), outputs.data()}, shape_.query_heads,
                             shape_.rows);
    }
    if (!ran || !outputs.intact()) return {};
    std::vector<float> all = outputs.values();
    append_cache(cache, &all);
    return all;
  }

 private:
  static constexpr float kScale = 0.35f;

  const float* cosines() const { return floats_.data() + 2 * shape_.head_dim; }
  const float* sines() const { return cosines() + geometry_.capacity * (shape_.head_dim / 2); }
  size_t element() const { return geometry_.type == CacheType::kFloat16 ? 2 : 4; }

  bool prepare(metal_shim::Order order, const cpu::KvCache& cache, float* qkv) {
    const size_t dim = shape_.head_dim;
    HeadsParams params{};
    params.query_heads = narrow(shape_.query_heads);
    params.key_heads = narrow(shape_.key_heads);
    params.head_dim = narrow(dim);
    params.start_pos = narrow(shape_.start_pos);
    params.query_stride = params.key_stride = params.value_stride = narrow(stride_);
    params.last_query = narrow(shape_.rows);
    params.has_query_norm = params.has_key_norm = params.has_rotation = 1;
    params.key_norm_at = narrow(dim);
    params.cosines_at = narrow(2 * dim);
    params.sines_at = narrow(2 * dim + geometry_.capacity * (dim / 2));
    params.eps = 1e-5f;
    params.cache_head_stride = narrow(geometry_.head_bytes() / element());
    params.cache_values_at = narrow(geometry_.values_at() / element());
    const Kernel kernel = geometry_.type == CacheType::kFloat16 ? Kernel::kPrepareHeadsFloat16
                                                                : Kernel::kPrepareHeadsFloat32;
    float* keys = qkv + shape_.query_heads * dim;
    return test::run_kernel(
        kernel, order, params,
        {qkv, keys, keys + shape_.key_heads * dim, floats_.data(), cache.keys(0)},
        shape_.query_heads + shape_.key_heads, shape_.rows);
  }

  AttentionParams attention_params() const {
    AttentionParams params{};
    params.query_heads = narrow(shape_.query_heads);
    params.key_heads = narrow(shape_.key_heads);
    params.head_dim = narrow(shape_.head_dim);
    params.start_pos = narrow(shape_.start_pos);
    params.query_stride = narrow(stride_);
    params.output_stride = narrow(shape_.query_heads * shape_.head_dim);
    params.splits = narrow(kernels::attention_splits(shape_.start_pos, shape_.rows));
    params.scale = kScale * 0x1.715476p+0f;
    params.cache_head_stride = narrow(geometry_.head_bytes() / element());
    params.cache_values_at = narrow(geometry_.values_at() / element());
    return params;
  }

  /// The cache as it would be saved, byte by byte.
  void append_cache(const cpu::KvCache& cache, std::vector<float>* outputs) const {
    const size_t length = shape_.start_pos + shape_.rows;
    std::vector<uint8_t> saved(cache.saved_bytes(length));
    cache.save(length, saved.data());
    outputs->insert(outputs->end(), saved.begin(), saved.end());
  }

  Shape shape_;
  size_t stride_;
  cpu::CacheGeometry geometry_;
  std::vector<float> qkv_, floats_;
  cpu::KvCache filled_;
};

bool same_as_scalar(const Shape& shape, float spread = 1) {
  for (const CacheType type : {CacheType::kFloat16, CacheType::kFloat32}) {
    AttentionProblem problem(shape, type, spread);
    const std::vector<float> expected = problem.expected();
    for (const metal_shim::Order order : test::kOrders) {
      for (const bool in_splits : {false, true}) {
        if (in_splits && shape.rows != 1) continue;
        if (!expect(test::equal_bits(problem.computed(order, in_splits), expected),
                    "scalar's outputs and cache")) {
          std::fprintf(stderr, "%zu on %zu heads of %zu, %zu rows from %zu on\n", shape.query_heads,
                       shape.key_heads, shape.head_dim, shape.rows, shape.start_pos);
          return false;
        }
      }
    }
  }
  return true;
}

bool decode() {
  for (const size_t start_pos : {0, 1, 15, 63, 64, 100}) {
    if (!same_as_scalar({6, 3, 12, start_pos, 1})) return false;
  }
  return true;
}

bool splits() {
  for (const size_t start_pos : {511, 512, 1100}) {
    if (!same_as_scalar({2, 1, 20, start_pos, 1})) return false;
  }
  return true;
}

bool prefill() {
  return same_as_scalar({4, 2, 16, 0, 33}) && same_as_scalar({3, 1, 8, 60, 9}) &&
         same_as_scalar({2, 2, 10, 500, 20});
}

bool head_dims() {
  for (const size_t dim : {2, 64, 80, 128, 256}) {
    if (!same_as_scalar({2, 1, dim, 70, 2})) return false;
  }
  return true;
}

/// One position takes all weight; differences beyond what the exponential takes.
bool sharp() { return same_as_scalar({2, 1, 32, 130, 3}, 60); }

const test::Case kCases[] = {
    {"decode", decode},       {"splits", splits}, {"prefill", prefill},
    {"head_dims", head_dims}, {"sharp", sharp},
};

}  // namespace

int main(int argc, char** argv) { return test::run_cases(kCases, argc, argv); }
