#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// How a row is converted to integers: q = round(clamp(x * inverse, low, high)) + zero_point.
struct Mapping {
  float scale;
  float inverse;
  float low;
  float high;
  int32_t zero_point;
};

Mapping choose_mapping(const float* x, size_t columns) {
  constexpr size_t kChains = 4;
  F32x16 smallest[kChains], largest[kChains];
  for (size_t c = 0; c < kChains; ++c) smallest[c] = largest[c] = broadcast(0.0f);
  size_t k = 0;
  for (; k + kChains * kLanes <= columns; k += kChains * kLanes) {
    for (size_t c = 0; c < kChains; ++c) {
      const F32x16 value = load(x + k + c * kLanes);
      smallest[c] = min(value, smallest[c]);
      largest[c] = max(value, largest[c]);
    }
  }
  for (; k + kLanes <= columns; k += kLanes) {
    smallest[0] = min(load(x + k), smallest[0]);
    largest[0] = max(load(x + k), largest[0]);
  }
  for (size_t c = 1; c < kChains; ++c) {
    smallest[0] = min(smallest[c], smallest[0]);
    largest[0] = max(largest[c], largest[0]);
  }
  float low[kLanes], high[kLanes];
  store(low, smallest[0]);
  store(high, largest[0]);
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

/// Of a group of columns, symmetric. Maxima are exact in any order.
Mapping choose_symmetric(const float* x, size_t columns) {
  F32x16 smallest = broadcast(0.0f), largest = broadcast(0.0f);
  for (; columns >= kLanes; columns -= kLanes, x += kLanes) {
    smallest = min(load(x), smallest);
    largest = max(load(x), largest);
  }
  if (columns > 0) {
    float padded[kLanes] = {};
    std::memcpy(padded, x, columns * sizeof(float));
    smallest = min(load(padded), smallest);
    largest = max(load(padded), largest);
  }
  const float scale = lane_max(max(largest, sub(broadcast(0.0f), smallest))) / 127.0f;
  Mapping mapping;
  mapping.scale = scale > FLT_MIN ? scale : FLT_MIN;
  mapping.inverse = 1.0f / mapping.scale;
  mapping.low = -127.0f;
  mapping.high = 127.0f;
  mapping.zero_point = 0;
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

/// Where bytes of a row are stored: quantized_offset() without divisions by what is not constant.
template <size_t kKr>
class RowPlaces {
 public:
  RowPlaces(size_t row, const QuantizedRows& out)
      : tile_(out.values + row / out.tile.mr * out.tile.mr * out.columns),
        in_tile_(row % out.tile.mr),
        columns_(out.columns),
        mr_(out.tile.mr) {}

  /// That of kColumnStep bytes from column k on.
  int8_t* at(size_t k) const {
    return tile_ + quantized_offset(0, k, columns_, {mr_, kKr}) + in_tile_ * width(k);
  }

 private:
  size_t width(size_t k) const {
    const size_t left = columns_ - k / kKr * kKr;
    return left < kKr ? left : kKr;
  }

  int8_t* const tile_;
  const size_t in_tile_, columns_, mr_;
};

/// Stores kColumnStep bytes there, kPiece at a time.
template <size_t kPiece>
void scatter(const int8_t* from, size_t mr, int8_t* to) {
  for (size_t i = 0; i < kColumnStep; i += kPiece, to += mr * kPiece)
    std::memcpy(to, from + i, kPiece);
}

template <size_t kKr>
void quantize_rows(const QuantizeArgs& args) {
  const QuantizedRows& out = args.out;
  constexpr size_t kPiece = kKr < kColumnStep ? kKr : kColumnStep;
  const size_t mr = out.tile.mr, steps = out.columns / kColumnStep;
  const size_t group_steps = out.group_size / kColumnStep;
  alignas(kColumnStep) int8_t bytes[kColumnStep];
  for (size_t row = 0; row < round_up(out.rows, mr); ++row) {
    int32_t* group_bias = out.group_bias + row / mr * mr * steps + row % mr;
    float* group_scales = nullptr;
    if (group_steps > 0)
      group_scales = out.group_scales + row / mr * mr * (steps / group_steps) + row % mr;
    const RowPlaces<kKr> places(row, out);
    if (row >= out.rows) {
      std::memset(bytes, 0, sizeof bytes);
      for (size_t step = 0; step < steps; ++step) {
        group_bias[step * mr] = 0;
        scatter<kPiece>(bytes, mr, places.at(step * kColumnStep));
        if (group_steps > 0) group_scales[step / group_steps * mr] = 0.0f;
      }
      continue;
    }
    const float* x = args.x + row * args.x_stride;
    if (args.rotated != 0) {
      hadamard(x, args.x_columns, args.rotated, args.scratch);
      x = args.scratch;
    }
    Mapping mapping{};
    if (group_steps == 0) mapping = choose_mapping(x, args.x_columns);
    int32_t total = 0;
    for (size_t step = 0; step < steps; ++step) {
      const size_t k = step * kColumnStep;
      const size_t left = k < args.x_columns ? args.x_columns - k : 0;
      if (group_steps > 0 && step % group_steps == 0) {
        mapping = choose_symmetric(x + (left > 0 ? k : 0), std::min(left, out.group_size));
        group_scales[step / group_steps * mr] = mapping.scale;
      }
      int8_t* const to = places.at(k);
      int8_t* const whole = kKr < kColumnStep ? bytes : to;
      const int32_t step_sum = quantize_step(x + (left > 0 ? k : 0), left, mapping, whole);
      group_bias[step * mr] = -7 * step_sum;
      total += step_sum;
      if (whole != to) scatter<kPiece>(bytes, mr, to);
    }
    if (group_steps == 0) out.params[row] = {mapping.scale, mapping.zero_point, total};
  }
}

}  // namespace

void quantize(const QuantizeArgs& args) {
  switch (args.out.tile.kr) {
    case 4:
      return quantize_rows<4>(args);
    case 8:
      return quantize_rows<8>(args);
    default:
      return quantize_rows<64>(args);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
