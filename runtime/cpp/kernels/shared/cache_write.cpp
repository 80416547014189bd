#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

inline void store_rounded(uint16_t* to, F32x16 a) { store_half(to, a); }
inline void store_rounded(float* to, F32x16 a) { store(to, a); }

/// Calls `put(first dimension, how many, 16 floats)` for a head's numbers.
template <typename Put>
inline void each_vector(const float* x, size_t head_dim, Put put) {
  for (size_t d = 0; d < head_dim; d += kLanes) {
    const size_t left = head_dim - d;
    put(d, left < kLanes ? left : kLanes, left < kLanes ? load_some(x + d, left) : load(x + d));
  }
}

template <typename Element>
void write_floats(const CacheWriteArgs& args) {
  Element* keys = static_cast<Element*>(args.keys) +
                  args.position / kLanes * kLanes * args.head_dim + args.position % kLanes;
  Element* values =
      static_cast<Element*>(args.values) + args.position * round_up(args.head_dim, kLanes);
  each_vector(args.key, args.head_dim, [&](size_t d, size_t count, F32x16 key) {
    Element lanes[kLanes];
    store_rounded(lanes, key);
    for (size_t i = 0; i < count; ++i) keys[(d + i) * kLanes] = lanes[i];
  });
  each_vector(args.value, args.head_dim,
              [&](size_t d, size_t, F32x16 value) { store_rounded(values + d, value); });
}

/// Writes x's scale and calls `put(first dimension, how many, 16 int8)`.
template <typename Put>
void write_quantized(const float* x, size_t head_dim, float* scale, Put put) {
  F32x16 largest = broadcast(0.0f);
  each_vector(x, head_dim, [&](size_t, size_t, F32x16 a) {
    largest = max(max(a, sub(broadcast(0.0f), a)), largest);
  });
  *scale = lane_max(largest) / 127.0f;
  const bool is_normal = *scale >= FLT_MIN;
  const F32x16 inverse = broadcast(is_normal ? 1.0f / *scale : 0.0f);
  if (!is_normal) *scale = 0.0f;
  each_vector(x, head_dim, [&](size_t d, size_t count, F32x16 a) {
    const F32x16 steps = max(mul(a, inverse), broadcast(-127.0f));
    int8_t lanes[kLanes];
    store_bytes(lanes, round_to_int(min(steps, broadcast(127.0f))));
    put(d, count, lanes);
  });
}

void write_int8(const CacheWriteArgs& args) {
  const size_t padded_dim = round_up(args.head_dim, kLanes);
  const size_t block = args.position / kLanes, lane = args.position % kLanes;
  uint8_t* keys =
      static_cast<uint8_t*>(args.keys) + block * cache_block_bytes(args.type, args.head_dim);
  uint8_t* values =
      static_cast<uint8_t*>(args.values) + block * cache_block_bytes(args.type, padded_dim);
  int8_t* key_lanes = reinterpret_cast<int8_t*>(keys + kLanes * sizeof(float)) + lane;
  int8_t* value_row =
      reinterpret_cast<int8_t*>(values + kLanes * sizeof(float)) + lane * padded_dim;
  write_quantized(args.key, args.head_dim, reinterpret_cast<float*>(keys) + lane,
                  [&](size_t d, size_t count, const int8_t* lanes) {
                    for (size_t i = 0; i < count; ++i) key_lanes[(d + i) * kLanes] = lanes[i];
                  });
  write_quantized(
      args.value, args.head_dim, reinterpret_cast<float*>(values) + lane,
      [&](size_t d, size_t, const int8_t* lanes) { std::memcpy(value_row + d, lanes, kLanes); });
}

}  // namespace

void write_cache(const CacheWriteArgs& args) {
  switch (args.type) {
    case CacheType::kFloat16:
      return write_floats<uint16_t>(args);
    case CacheType::kFloat32:
      return write_floats<float>(args);
    case CacheType::kInt8:
      return write_int8(args);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
