#pragma once

/// \file
/// The kernels of one instruction set: pure functions behind one table. They allocate nothing,
/// start no threads and compute a part of the output, so that the caller can divide the work.
///
/// Every variant returns what `scalar` returns, bit for bit: integer dot products are exact, and
/// float operations are IEEE, in one order, fused only where a kernel says so.

#include "kernels/layout/layout.h"
#include "kernels/norms.h"
#include "kernels/shared/cache.h"
#include "kernels/shared/function.h"
#include "kernels/texts.h"

namespace thimble::kernels {

/// Quantizes rows of float32 to int8 per row, asymmetric:
/// scale = (max(x, 0) - min(x, 0)) / 255, at least the smallest normal;
/// zero_point = clamp(-128 - round(min / scale)); q = clamp(round(x * (1 / scale)) + zero_point).
/// A NaN is ignored in min and max and becomes -128.
///
/// In groups of columns, symmetric: scale = max |x| / 127, at least the smallest normal;
/// q = clamp(round(x * (1 / scale))), -127 to 127. A NaN becomes -127.
struct QuantizeArgs {
  const float* x;
  size_t x_stride;  ///< in floats
  size_t x_columns;
  QuantizedRows out;         ///< rows, columns and tile are inputs
  size_t rotated = 0;        ///< block in which hadamard() rotates rows before; 0: they are not
  float* scratch = nullptr;  ///< [x_columns], if they are
};

/// Columns from `first` to before `last`.
struct ColumnRange {
  size_t first;
  size_t last;
};

/// Where the columns of a weight may be cut: between words of eight multiples.
constexpr size_t column_step(const PackedWeight& weight) {
  return has_two_levels(weight.format) ? 8 * weight.group_size : kColumnStep;
}

/// Quantized rows times packed weight, transposed, in part: the outputs of some blocks of 16.
/// With integers a = sum of q * weight and s = row_scale, formats with two levels and kInt8 compute
///
///     y = float(a - zero_point * row_sum) * (scale * s)
///
/// and kInt4 and kInt8Groups, whose inputs are quantized in the same groups, in order, fused,
///
///     y = float(a of the group) * (its scale * the scale of the input's group) + y
///
/// then y + bias, if there is one, then activation(y), then + the old value of `y`, if
/// `accumulate`.
///
/// A weight with too few rows for all threads can be cut along its columns too: if `sums` is set,
/// matvec of these formats uses only `columns` and writes the integers a to sums;
/// finish_sums() adds those of all parts, exactly, and does the rest. The others are not cut,
/// because their sums are floats in order.
struct LinearArgs {
  QuantizedRows x;
  PackedWeight weight;
  size_t first_block;
  size_t last_block;  ///< one past
  float* y;           ///< [x.rows][weight.rows], rows y_stride floats apart
  size_t y_stride;
  const float* bias;  ///< [weight.rows] or null
  bool accumulate;
  uint8_t* scratch;  ///< linear_scratch_bytes(), aligned to 64, used by this call only
  Function activation = Function::kAdd;  ///< kAdd: none
  int32_t* sums = nullptr;               ///< [x.rows][weight.blocks() * 16], or null
  ColumnRange columns = {0, 0};          ///< ends are multiples of column_step(), or the last
};
using LinearFunction = void (*)(const LinearArgs&);

/// Weight rows that a matrix product unpacks at a time.
constexpr size_t kPanelRows = 32;
/// The size does not depend on the columns: a part of a panel, and the sums that wait for its other
/// parts.
constexpr size_t kLeastScratchBytes = size_t{96} << 10;
constexpr size_t linear_scratch_bytes(size_t columns) {
  const size_t panel = kPanelRows * (columns + kColumnStep);
  return panel > kLeastScratchBytes ? panel : kLeastScratchBytes;
}

/// float32 rows times packed float32 weight. Each output is four fused chains, over the columns of
/// equal k % 4, added (0 + 1) + (2 + 3); then bias and `accumulate` as above, and the activation. A
/// row may consist of parts that lie apart, each of the same multiple of 4 columns.
struct FloatLinearArgs {
  const float* x;
  size_t x_stride;
  size_t rows;
  PackedWeight weight;
  size_t first_block;
  size_t last_block;
  float* y;
  size_t y_stride;
  const float* bias;
  bool accumulate;
  Function activation = Function::kAdd;  ///< kRelu or kRelu6; kAdd: none
  const float* const* parts = nullptr;   ///< [rows][parts_of_row], in place of x; or null
  size_t parts_of_row = 1;
};

/// The first half of a low-rank product: t = scale * (x a^T). Each number is one fused chain of 16
/// lanes over the columns, lane k % 16, added as lane_sum() does; then times scale.
struct ShrinkArgs {
  const float* x;
  size_t x_stride;  ///< in floats
  size_t rows;
  size_t columns;
  const uint16_t* a;  ///< float16 [rank][columns]
  size_t rank;
  float scale;
  float* t;  ///< [rows][rank], rows t_stride floats apart
  size_t t_stride;
};

/// The second half: y = y + (t b). Each number is one fused chain over the rank, from 0, and then
/// added.
struct ExpandArgs {
  const float* t;
  size_t t_stride;  ///< in floats
  size_t rows;
  size_t rank;
  const uint16_t* b;    ///< float16 [blocks of 16 columns][rank][16]
  ColumnRange columns;  ///< any
  float* y;             ///< column 0; [rows][columns], rows y_stride floats apart
  size_t y_stride;
  size_t y_block = kBlockRows;  ///< floats from one block to the next: gate and up may alternate
};

/// y = function(x, other) or function(x), for n numbers; y may be x or other.
struct ElementwiseArgs {
  Function function;
  const float* x;
  const float* other;  ///< of a binary function
  float number;        ///< where it is said above
  size_t n;
  float* y;
};

/// y = beta * x + alpha_p * x^2, of x <= 0: + alpha_n * (exp(x) - 1 - x); y may be x. NaN gives
/// NaN.
struct XieluArgs {
  const float* x;
  float alpha_p;
  float alpha_n;
  float beta;
  size_t n;
  float* y;
};

/// y = activation(x) of rows; y may be x.
struct ActivateArgs {
  Function activation;
  const float* x;  ///< [rows][columns], rows x_stride floats apart
  size_t x_stride;
  size_t rows;
  size_t columns;
  float* y;  ///< the same, rows y_stride floats apart
  size_t y_stride;
};

/// y = activation(gate) * up, then + the old value of `y`, if `accumulate`; y may be gate or
/// up. With a limit, gate is min(gate, limit) and up is min(max(up, -limit), limit) + 1.
struct GluArgs {
  Function activation;
  const float* gate;  ///< [rows][columns], rows x_stride floats apart
  const float* up;    ///< the same
  size_t x_stride;
  size_t rows;
  size_t columns;
  float* y;  ///< the same, rows y_stride floats apart
  size_t y_stride;
  bool accumulate;
  float limit = 0;  ///< 0: none
};

/// A short convolution of rows that follow one another: with the product u = opening * x,
///
///     y = gate * (bias + sum over taps k of weight[k] * u of taps - 1 - k positions before)
///
/// one fused chain, the oldest first. What lies before position 0 does not take part. Without an
/// opening u is x; without a gate y is silu of the sum, and may be x.
struct ConvolutionArgs {
  const float* opening;  ///< as x, or null
  const float* gate;     ///< the same
  const float* x;        ///< [rows][columns], rows x_stride floats apart
  size_t x_stride;
  size_t rows;
  size_t columns;
  size_t position;      ///< of the first row
  size_t width;         ///< floats from one row to the next of weight and history
  const float* weight;  ///< [taps][columns]
  size_t taps;          ///< kMostTaps at most
  const float* bias;    ///< [columns] or null
  float* history;       ///< [history_rows][columns]: u of position p is in row p % history_rows
  size_t history_rows;  ///< `taps` at least
  float* y;             ///< [rows][columns], rows y_stride floats apart; null: only u is computed
  size_t y_stride;
};
constexpr size_t kMostTaps = 16;

/// What one tap of a window reads: where in the picture, and which row of the weight.
struct DepthwiseTap {
  size_t x;       ///< floats from the window's place
  size_t weight;  ///< floats
};

/// A convolution of each column by itself, over windows that follow one another:
///
///     y = activation(bias + sum over taps of x[tap] * weight[tap])
///
/// one fused chain in the order of the taps.
struct DepthwiseArgs {
  const float* x;
  size_t x_step;  ///< floats from one window to the next
  const DepthwiseTap* offsets;
  size_t taps;
  const float* weight;
  const float* bias;    ///< [columns] or null
  Function activation;  ///< kAdd: none
  size_t windows;
  size_t columns;
  float* y;  ///< [windows][columns], y_step floats apart
  size_t y_step;
};

/// The gated delta rule of one head of values over rows that follow one another. For each, with q
/// and k over the root of the sum of their squares + 1e-6, and q / sqrt(key_dim), and with
/// decay = exp(-exp(a_log) * softplus(a + dt_bias)),
///
///     delta = sigmoid(b) * (v - decay * S^T k),  S = decay * S + k delta^T,  y = S^T q
///
/// Each sum over key_dim is four fused chains, of equal index % 4, added (0 + 1) + (2 + 3).
struct DeltaArgs {
  const float* query;  ///< [rows][key_dim], rows `stride` floats apart
  const float* key;    ///< the same
  const float* value;  ///< [rows][value_dim], likewise
  size_t stride;
  const float* a;  ///< a number of each row, a_stride floats apart
  size_t a_stride;
  const float* b;
  size_t b_stride;
  float a_log;
  float dt_bias;
  size_t rows;
  size_t key_dim;
  size_t value_dim;
  float* state;  ///< S: [blocks of 16 columns][key_dim][16]
  float* y;      ///< [rows][value_dim], rows y_stride floats apart; null: S alone is computed
  size_t y_stride;
  float* scratch;   ///< [kDeltaRows][2][key_dim]
  size_t position;  ///< of the first row
  float* log;       ///< where each row's step is kept, delta_log_row() has it; null: nowhere
  size_t log_stride;
};
/// Rows whose queries and keys are prepared together.
constexpr size_t kDeltaRows = 64;

/// Steps of the gated delta rule that are done once more, those of rows that follow one another.
struct DeltaReplayArgs {
  const float* log;
  size_t log_stride;
  size_t position;  ///< of the first row
  size_t rows;
  size_t key_dim;
  size_t value_dim;
  float* state;  ///< S before the first, and then after the last
};
/// So many rows' steps are kept.
constexpr size_t kDeltaLogRows = 16;
/// Numbers of a step: [key_dim] k, delta in whole blocks of 16 columns, decay.
constexpr size_t delta_step_size(size_t key_dim, size_t value_dim) {
  return key_dim + round_up(value_dim, kBlockRows) + 1;
}
/// The matrices of a gated delta rule, one for each head of values.
struct DeltaShape {
  size_t heads = 0;
  size_t key_dim = 0;
  size_t value_dim = 0;

  bool operator==(const DeltaShape& other) const {
    return heads == other.heads && key_dim == other.key_dim && value_dim == other.value_dim;
  }
  /// Floats of a head's matrix.
  constexpr size_t matrix() const { return key_dim * round_up(value_dim, kBlockRows); }
  /// Floats of the steps of all heads at a position, one behind the other.
  constexpr size_t steps() const { return heads * delta_step_size(key_dim, value_dim); }
};
/// Where the step of a position is in a log whose rows are `stride` floats apart.
constexpr size_t delta_log_row(size_t position, size_t stride) {
  return position % kDeltaLogRows * stride;
}

/// Sizes of the blocks that hadamard() rotates.
constexpr bool is_hadamard_block(size_t size) { return size == 16 || size == 32 || size == 64; }

/// The kernels of one instruction set.
struct Variant {
  const char* name;
  uint32_t required;  ///< CpuFeature bits
  Tile tile;          ///< of the activations of `matmul`
  /// Up to so many rows, `matvec` for one tile of kMatvecRows after the other is faster than
  /// `matmul`: unpacking weights takes longer than reading them again from a cache.
  size_t few_rows;

  /// The tile of activations of so many rows.
  constexpr Tile tile_of(size_t rows) const {
    if (rows <= kMatvecRows) return matvec_tile(rows);
    return rows <= few_rows ? matvec_tile(kMatvecRows) : tile;
  }

  void (*quantize)(const QuantizeArgs&);
  /// Up to kMatvecRows rows in one tile, matvec_tile(), by WeightFormat; limited by memory
  /// bandwidth.
  LinearFunction matvec[kFormats];
  /// Outputs from the integers that `parts` calls of matvec wrote to args.sums, one part after the
  /// other, [parts][x.rows][blocks * 16]: bit-identical to one matvec without parts.
  void (*finish_sums)(const LinearArgs& args, size_t parts);
  /// Any number of rows in tiles of `tile`, by WeightFormat; limited by the dot products.
  LinearFunction matmul[kFormats];
  void (*float_linear)(const FloatLinearArgs&);
  void (*shrink)(const ShrinkArgs&);
  void (*expand)(const ExpandArgs&);

  /// y = x * (1 / sqrt(mean of x^2 + eps)) * weight, for n numbers; y may be x; weight may be null:
  /// all 1. The sum of squares: 16 fused chains, of equal index % 16, added in halves.
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, float* y);
  void (*layer_norm)(const LayerNormArgs&);
  void (*center)(const CenterArgs&);
  /// The sums of x - shift, and of their squares, of n numbers: 16 chains, those of squares fused,
  /// added as lane_sum() does.
  void (*moments)(const float* x, size_t n, float shift, float sums[2]);
  void (*xielu)(const XieluArgs&);
  /// x = exp(x - the largest x) / their sum, for n >= 1 numbers. The sum: 16 chains, of equal index
  /// % 16, added as lane_sum() does.
  void (*softmax)(float* x, size_t n);
  /// Rotates each block of n numbers; y may be x: y_i = sum over j of (-1)^(bits that i and j
  /// share) x_j / sqrt(block). Sums of two, of numbers 1, 2, 4, ... apart, then one product.
  /// \param block is_hadamard_block(); n is a multiple of it.
  void (*hadamard)(const float* x, size_t n, size_t block, float* y);
  /// Rotates `count` heads in place, each by the angles of one position: the first half of a head
  /// becomes a * cos - b * sin, the second b * cos + a * sin. Tables [head_dim / 2].
  void (*rope)(float* heads, size_t count, size_t head_dim, const float* cosines,
               const float* sines);
  void (*elementwise)(const ElementwiseArgs&);
  void (*activate)(const ActivateArgs&);
  void (*glu)(const GluArgs&);
  void (*convolve)(const ConvolutionArgs&);
  void (*depthwise)(const DepthwiseArgs&);
  void (*delta_rule)(const DeltaArgs&);
  void (*replay_delta)(const DeltaReplayArgs&);
  void (*text_attention)(const TextAttentionArgs&);
  void (*write_cache)(const CacheWriteArgs&);
  void (*attention)(const AttentionArgs&);
  /// attention() in parts, for more threads than there are key/value heads: the positions of one
  /// split of attention_splits(), its result, attention_partial_size() floats, to `partial`;
  void (*attention_split)(const AttentionArgs&, size_t split, float* partial);
  /// combines the results of all splits from attention_first_split() on, one after the other:
  /// bit-identical to attention().
  void (*attention_merge)(const AttentionArgs&, float* partials);
};

}  // namespace thimble::kernels
