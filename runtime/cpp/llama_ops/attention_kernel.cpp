/// Attention in one pass over the keys: the online softmax of Milakov and Gimelshein (2018) over
/// tiles, as in FlashAttention (Dao et al., 2022). Query rows are along the vector lanes, so that a
/// key is read in place, element by element, and the softmax needs no sum across lanes.
///
/// Compiled once per instruction set, with THIMBLE_VARIANT as its namespace and name and
/// THIMBLE_VECTOR_BYTES as the width of its registers. It therefore includes nothing that defines
/// an inline function: the linker would keep one copy, perhaps the one this CPU cannot run.

#include "llama_ops/attention_kernel.h"

#define THIMBLE_STRING_OF(name) #name
#define THIMBLE_STRING(name) THIMBLE_STRING_OF(name)

namespace thimble::THIMBLE_VARIANT {
namespace {

constexpr int64_t kLanes = THIMBLE_VECTOR_BYTES / sizeof(float);
typedef float Floats __attribute__((vector_size(THIMBLE_VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(THIMBLE_VECTOR_BYTES)));

constexpr float kMinusInfinity = -__builtin_inff();

inline Floats load(const float* from) {
  Floats value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

inline void store(float* to, Floats value) { __builtin_memcpy(to, &value, sizeof(value)); }

inline Floats splat(float value) { return Floats{} + value; }

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// e^x for x <= 0, within 2 ulp; exactly 0 below -87. The polynomial is Cephes' expf.
inline Floats exponential(Floats x) {
  const Ints keep = x > splat(-87.0f);
  x = keep ? x : Floats{};
  const Ints exponent = __builtin_convertvector(x * 1.44269504f - 0.5f, Ints);
  const Floats n = __builtin_convertvector(exponent, Floats);
  const Floats f = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = splat(1.9875691500e-4f);
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  const Ints power_bits = (exponent + 127) << 23;
  Floats power;
  __builtin_memcpy(&power, &power_bits, sizeof(power));
  return keep ? p * power : Floats{};
}

/// A matrix read as (row, depth) elements.
struct Matrix {
  const float* data;
  int64_t row_stride;
  int64_t depth_stride;
};

/// One vector of columns: c[row] (+)= sum over depth of a(row, depth) * b[depth], for `rows` <= 8.
/// The accumulators are named because GCC 12 keeps an array of them in memory. Rows past the last
/// repeat it, and write the same values to the same place.
inline void multiply_8_rows(const Matrix& a, int64_t rows, const float* b, int64_t b_stride,
                            int64_t depth, float* c, int64_t c_stride, bool accumulate) {
  const int64_t last = rows - 1;
  const int64_t i1 = smaller(1, last), i2 = smaller(2, last), i3 = smaller(3, last);
  const int64_t i4 = smaller(4, last), i5 = smaller(5, last), i6 = smaller(6, last);
  const float* a0 = a.data;
  const float* a1 = a.data + i1 * a.row_stride;
  const float* a2 = a.data + i2 * a.row_stride;
  const float* a3 = a.data + i3 * a.row_stride;
  const float* a4 = a.data + i4 * a.row_stride;
  const float* a5 = a.data + i5 * a.row_stride;
  const float* a6 = a.data + i6 * a.row_stride;
  const float* a7 = a.data + last * a.row_stride;
  Floats c0{}, c1{}, c2{}, c3{}, c4{}, c5{}, c6{}, c7{};
  if (accumulate) {
    c0 = load(c);
    c1 = load(c + i1 * c_stride);
    c2 = load(c + i2 * c_stride);
    c3 = load(c + i3 * c_stride);
    c4 = load(c + i4 * c_stride);
    c5 = load(c + i5 * c_stride);
    c6 = load(c + i6 * c_stride);
    c7 = load(c + last * c_stride);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Floats column = load(b + k * b_stride);
    const int64_t at = k * a.depth_stride;
    c0 += a0[at] * column;
    c1 += a1[at] * column;
    c2 += a2[at] * column;
    c3 += a3[at] * column;
    c4 += a4[at] * column;
    c5 += a5[at] * column;
    c6 += a6[at] * column;
    c7 += a7[at] * column;
  }
  store(c, c0);
  store(c + i1 * c_stride, c1);
  store(c + i2 * c_stride, c2);
  store(c + i3 * c_stride, c3);
  store(c + i4 * c_stride, c4);
  store(c + i5 * c_stride, c5);
  store(c + i6 * c_stride, c6);
  store(c + last * c_stride, c7);
}

/// c (rows, columns) (+)= a (rows, depth) * b (depth, columns); columns is a multiple of kLanes.
void multiply(const Matrix& a, int64_t rows, const float* b, int64_t b_stride, int64_t depth,
              int64_t columns, float* c, int64_t c_stride, bool accumulate) {
  for (int64_t row = 0; row < rows; row += 8) {
    const Matrix band{a.data + row * a.row_stride, a.row_stride, a.depth_stride};
    for (int64_t column = 0; column < columns; column += kLanes) {
      multiply_8_rows(band, smaller(8, rows - row), b + column, b_stride, depth,
                      c + row * c_stride + column, c_stride, accumulate);
    }
  }
}

/// A block's scratch memory. Padded rows and columns are zero or never read.
struct State {
  int64_t rows;       // padded
  int64_t dim;        // padded
  float* query;       // (head_dim, rows): transposed and scaled
  float* out;         // (rows, dim): the output before the division by `sum`
  float* scores;      // (kAttentionKeys, rows): then the weights
  float* values;      // (kAttentionKeys, dim)
  float* largest;     // (rows): the largest score so far
  float* sum;         // (rows): of the weights so far, relative to `largest`
  float* correction;  // (rows): the factor of the last tile for earlier sums
  float* num_keys;    // (rows): keys a row attends to, a whole number
};

State prepare(const AttentionBlock& block, float* scratch) {
  const int64_t rows = block.num_queries * block.group;
  State state;
  state.rows = attention_padded(rows);
  state.dim = attention_padded(block.head_dim);
  state.query = scratch;
  state.out = state.query + state.rows * state.dim;
  state.scores = state.out + state.rows * state.dim;
  state.values = state.scores + kAttentionKeys * state.rows;
  state.largest = state.values + kAttentionKeys * state.dim;
  state.sum = state.largest + state.rows;
  state.correction = state.sum + state.rows;
  state.num_keys = state.correction + state.rows;
  __builtin_memset(state.query, 0, sizeof(float) * 2 * state.rows * state.dim);
  for (int64_t row = 0; row < state.rows; ++row) {
    const int64_t position = smaller(row, rows - 1) / block.group;
    state.largest[row] = kMinusInfinity;
    state.sum[row] = 0.0f;
    state.num_keys[row] = static_cast<float>(block.first_num_keys + position * block.key_step);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float* query =
        block.query + row / block.group * block.query_stride + row % block.group * block.head_dim;
    for (int64_t d = 0; d < block.head_dim; ++d) {
      state.query[d * state.rows + row] = query[d] * block.scale;
    }
  }
  return state;
}

/// Turns the scores of keys `first` .. `first + count - 1` into weights, and stores the factor for
/// earlier sums.
void softmax_tile(const State& state, int64_t rows, int64_t first, int64_t count) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    float* scores = state.scores + row;
    const Floats num_keys = load(state.num_keys + row);
    const Floats before = load(state.largest + row);
    Floats largest = before;
    for (int64_t t = 0; t < count; ++t) {
      const Ints seen = splat(static_cast<float>(first + t)) < num_keys;
      const Floats score = seen ? load(scores + t * state.rows) : splat(kMinusInfinity);
      store(scores + t * state.rows, score);
      largest = score > largest ? score : largest;
    }
    const Floats correction = exponential(before - largest);
    Floats sum = load(state.sum + row) * correction;
    for (int64_t t = 0; t < count; ++t) {
      const Floats weight = exponential(load(scores + t * state.rows) - largest);
      store(scores + t * state.rows, weight);
      sum += weight;
    }
    store(state.largest + row, largest);
    store(state.sum + row, sum);
    store(state.correction + row, correction);
  }
}

/// Whether any query may attend to one of the keys `first` .. `first + count - 1`.
bool is_visible(const AttentionBlock& block, int64_t first, int64_t count) {
  for (int64_t query = 0; query < block.num_queries; ++query) {
    const float* mask = block.mask + query * block.mask_stride + first;
    for (int64_t t = 0; t < count; ++t) {
      if (mask[t] != kMinusInfinity) return true;
    }
  }
  return false;
}

void add_mask(const AttentionBlock& block, const State& state, int64_t first, int64_t count) {
  for (int64_t row = 0; row < block.num_queries * block.group; ++row) {
    const float* mask = block.mask + row / block.group * block.mask_stride + first;
    for (int64_t t = 0; t < count; ++t) state.scores[t * state.rows + row] += mask[t];
  }
}

void rescale(const State& state, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    const float correction = state.correction[row];
    if (correction == 1.0f) continue;
    float* out = state.out + row * state.dim;
    for (int64_t d = 0; d < state.dim; d += kLanes) store(out + d, load(out + d) * correction);
  }
}

void attend(const AttentionBlock& block, float* scratch) {
  const State state = prepare(block, scratch);
  const int64_t rows = block.num_queries * block.group;
  const int64_t score_columns = (rows + kLanes - 1) / kLanes * kLanes;
  const int64_t value_columns = (block.head_dim + kLanes - 1) / kLanes * kLanes;
  const int64_t num_keys = block.first_num_keys + (block.num_queries - 1) * block.key_step;
  // A compact copy of values pays off if several bands of rows read them; ragged ones need it.
  const bool copy_values = rows > 8 || value_columns != block.head_dim;
  if (copy_values) __builtin_memset(state.values, 0, sizeof(float) * kAttentionKeys * state.dim);

  for (int64_t first = 0; first < num_keys; first += kAttentionKeys) {
    const int64_t count = smaller(kAttentionKeys, num_keys - first);
    if (block.mask != nullptr && !is_visible(block, first, count)) continue;
    const Matrix keys{block.key + first * block.cache_stride, block.cache_stride, 1};
    multiply(keys, count, state.query, state.rows, block.head_dim, score_columns, state.scores,
             state.rows, false);
    if (block.mask != nullptr) add_mask(block, state, first, count);
    softmax_tile(state, score_columns, first, count);
    rescale(state, rows);

    const float* values = block.value + first * block.cache_stride;
    int64_t value_stride = block.cache_stride;
    if (copy_values) {
      for (int64_t t = 0; t < count; ++t) {
        __builtin_memcpy(state.values + t * state.dim, values + t * block.cache_stride,
                         sizeof(float) * block.head_dim);
      }
      values = state.values;
      value_stride = state.dim;
    }
    const Matrix weights{state.scores, 1, state.rows};
    multiply(weights, rows, values, value_stride, count, value_columns, state.out, state.dim, true);
  }

  for (int64_t row = 0; row < rows; ++row) {
    float* out =
        block.out + row / block.group * block.query_stride + row % block.group * block.head_dim;
    const float inverse = 1.0f / state.sum[row];
    for (int64_t d = 0; d < block.head_dim; ++d) {
      out[d] = state.out[row * state.dim + d] * inverse;
    }
  }
}

}  // namespace

extern const AttentionKernel kAttentionKernel;
const AttentionKernel kAttentionKernel{THIMBLE_STRING(THIMBLE_VARIANT), &attend};

}  // namespace thimble::THIMBLE_VARIANT
