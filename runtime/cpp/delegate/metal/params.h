/// \file
/// What the host passes to the kernels besides their buffers: plain structs of 4-byte numbers, read
/// by both C++ and Metal. Strides and offsets into rows are counted in elements.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

#define THIMBLE_METAL_MOST_HEAD_DIM 256

/// A packed weight of kernels/layout/layout.h: what its BlockLayout says, in bytes of a block.
struct WeightParams {
  uint32_t format;  ///< kernels::WeightFormat
  uint32_t rows;
  uint32_t columns;  ///< as stored
  uint32_t group_size;
  uint32_t block_bytes;
  uint32_t scales_at;
  uint32_t values_at;
};

/// How one row was quantized as a whole: x = (q - zero_point) * scale.
struct RowScale {
  float scale;
  int32_t zero_point;
};

struct EmbedParams {
  WeightParams weight;
  uint32_t columns;  ///< before padding
  uint32_t stride;   ///< of the output
};

struct NormParams {
  uint32_t columns;
  uint32_t x_stride;
  uint32_t y_stride;
  float eps;
};

struct RotateParams {
  uint32_t columns;
  uint32_t x_stride;
  uint32_t has_norm;
  float eps;
  uint32_t block;
  float scale;  ///< 1 / sqrt(block)
};

struct QuantizeParams {
  uint32_t columns;  ///< of x
  uint32_t stored;   ///< of q, zeros behind x's columns
  uint32_t x_stride;
  uint32_t has_norm;
  float eps;
  uint32_t group_size;  ///< columns that have a scale of their own, x = q * scale; 0: a row has one
};

/// For every linear kernel: q or x times the weight transposed; then bias, SwiGLU and the sum with
/// the old output, as requested.
struct LinearParams {
  WeightParams weight;
  uint32_t rows;      ///< of the input
  uint32_t x_stride;  ///< of float32 inputs
  uint32_t y_stride;
  uint32_t y_columns;
  uint32_t has_bias;
  uint32_t accumulate;
  uint32_t swiglu;  ///< blocks of the weight alternate gate, up
};

/// Of one attention operator: where its tables lie, and the cache of one key/value head as
/// kernels/shared/cache.h has it.
struct HeadsParams {
  uint32_t query_heads;
  uint32_t key_heads;
  uint32_t head_dim;
  uint32_t start_pos;  ///< of the first row
  uint32_t query_stride;
  uint32_t key_stride;
  uint32_t value_stride;
  uint32_t first_query;  ///< row; queries before it are left alone, as are those from last_query on
  uint32_t last_query;
  uint32_t has_query_norm;
  uint32_t has_key_norm;
  uint32_t has_rotation;
  uint32_t query_norm_at;  ///< in the floats, as the next three
  uint32_t key_norm_at;
  uint32_t cosines_at;
  uint32_t sines_at;
  float eps;
  uint32_t cache_head_stride;  ///< from one head to the next, in elements
  uint32_t cache_values_at;    ///< in a head, in elements
  uint32_t ring;  ///< rows of the cache: position p is in row p % ring; 0: a row for each
};

struct AttentionParams {
  uint32_t query_heads;
  uint32_t key_heads;
  uint32_t head_dim;
  uint32_t start_pos;  ///< of the first row
  uint32_t query_stride;
  uint32_t output_stride;
  uint32_t splits;  ///< of attention_split and attention_merge
  float scale;      ///< times log2(e)
  uint32_t cache_head_stride;
  uint32_t cache_values_at;
  uint32_t window;  ///< positions that a query sees, its own included; 0: all
  uint32_t ring;    ///< as in HeadsParams, whole tiles
};

struct PairParams {
  uint32_t columns;
  uint32_t x_stride;
  uint32_t up_stride;
  uint32_t y_stride;
};
