#include <cfloat>
#include <cmath>
#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/functions.h"
#include "kernels/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// How a row becomes integers: q = round(clamp(x * inverse, low, high)) + zero_point.
struct Mapping {
  float scale;
  float inverse;
  float low;
  float high;
  int32_t zero_point;
};

Mapping choose_mapping(const float* x, size_t columns) {
  F32x16 smallest = broadcast(0.0f), largest = broadcast(0.0f);
  size_t k = 0;
  for (; k + kLanes <= columns; k += kLanes) {
    const F32x16 value = load(x + k);
    smallest = min(value, smallest);
    largest = max(value, largest);
  }
  float low[kLanes], high[kLanes];
  store(low, smallest);
  store(high, largest);
  for (; k < columns; ++k) {
    low[0] = x[k] < low[0] ? x[k] : low[0];
    high[0] = x[k] > high[0] ? x[k] : high[0];
  }
  for (size_t i = 1; i < kLanes; ++i) {
    low[0] = low[i] < low[0] ? low[i] : low[0];
    high[0] = high[i] > high[0] ? high[i] : high[0];
  }
  Mapping mapping;
  const float scale = (high[0] - low[0]) / 255.0f;
  mapping.scale = scale > FLT_MIN ? scale : FLT_MIN;
  float zero_point = -128.0f - std::nearbyint(low[0] / mapping.scale);
  zero_point = zero_point > -128.0f ? zero_point : -128.0f;
  zero_point = zero_point < 127.0f ? zero_point : 127.0f;
  mapping.zero_point = static_cast<int32_t>(zero_point);
  mapping.inverse = 1.0f / mapping.scale;
  mapping.low = -128.0f - zero_point;
  mapping.high = 127.0f - zero_point;
  return mapping;
}

I32x16 quantized(const float* x, const Mapping& mapping) {
  const F32x16 steps = mul(load(x), broadcast(mapping.inverse));
  const F32x16 inside = min(max(steps, broadcast(mapping.low)), broadcast(mapping.high));
  return add(round_to_int(inside), broadcast(mapping.zero_point));
}

/// Quantizes kColumnStep values, those beyond `columns` to 0; returns their sum.
int32_t quantize_step(const float* x, size_t columns, const Mapping& mapping, int8_t* out) {
  if (columns >= kColumnStep) {
    const I32x16 first = quantized(x, mapping), second = quantized(x + kLanes, mapping);
    store_bytes(out, first);
    store_bytes(out + kLanes, second);
    return sum(add(first, second));
  }
  float padded[kColumnStep] = {};
  std::memcpy(padded, x, columns * sizeof(float));
  store_bytes(out, quantized(padded, mapping));
  store_bytes(out + kLanes, quantized(padded + kLanes, mapping));
  std::memset(out + columns, 0, kColumnStep - columns);
  int32_t total = 0;
  for (size_t i = 0; i < columns; ++i) total += out[i];
  return total;
}

template <size_t kPiece>
void scatter(const int8_t* from, int8_t* to, size_t stride) {
  for (size_t i = 0; i < kColumnStep; i += kPiece, to += stride) std::memcpy(to, from + i, kPiece);
}

/// Writes kColumnStep bytes of a row, from column k on, `kr` at a time.
void write_step(const int8_t* from, size_t row, size_t k, const QuantizedRows& out) {
  const Tile tile = out.tile;
  int8_t* to = out.values + quantized_offset(row, k, out.columns, tile);
  if (tile.kr == 4) {
    scatter<4>(from, to, tile.mr * 4);
  } else if (tile.kr == 8) {
    scatter<8>(from, to, tile.mr * 8);
  } else {
    std::memcpy(to, from, kColumnStep);
  }
}

}  // namespace

void quantize(const QuantizeArgs& args) {
  const QuantizedRows& out = args.out;
  const Tile tile = out.tile;
  const size_t steps = out.columns / kColumnStep;
  alignas(kColumnStep) int8_t bytes[kColumnStep];
  for (size_t row = 0; row < round_up(out.rows, tile.mr); ++row) {
    int32_t* group_bias = out.group_bias + row / tile.mr * tile.mr * steps + row % tile.mr;
    if (row >= out.rows) {
      std::memset(bytes, 0, sizeof bytes);
      for (size_t step = 0; step < steps; ++step) {
        group_bias[step * tile.mr] = 0;
        write_step(bytes, row, step * kColumnStep, out);
      }
      continue;
    }
    const float* x = args.x + row * args.x_stride;
    const Mapping mapping = choose_mapping(x, args.x_columns);
    int32_t total = 0;
    for (size_t step = 0; step < steps; ++step) {
      const size_t k = step * kColumnStep;
      const size_t left = k < args.x_columns ? args.x_columns - k : 0;
      const int32_t step_sum = quantize_step(x + (left > 0 ? k : 0), left, mapping, bytes);
      group_bias[step * tile.mr] = -7 * step_sum;
      total += step_sum;
      write_step(bytes, row, k, out);
    }
    out.params[row] = {mapping.scale, mapping.zero_point, total};
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
