#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/symmetric.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

inline void store_rounded(uint16_t* to, F32x16 a) { store_half(to, a); }
inline void store_rounded(float* to, F32x16 a) { store(to, a); }

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

/// One head's numbers at a position, as they are written.
struct Numbers {
  const float* from;
  size_t head_dim, lane;  ///< of the block
  uint8_t* block;

  void set_scale(float scale) const { reinterpret_cast<float*>(block)[lane] = scale; }
};

void write_key_int8(const Numbers& key) {
  uint8_t* fours = key.block + kLanes * sizeof(float) + key.lane * kCacheFour;
  key.set_scale(
      quantize_symmetric(key.from, key.head_dim, [&](size_t d, size_t count, const int8_t* lanes) {
        for (size_t i = d; i < d + count; ++i)
          fours[i / kCacheFour * kLineBytes + i % kCacheFour] =
              static_cast<uint8_t>(lanes[i - d] + kCacheBias);
      }));
}

/// The place of a position's first number in a block of values of so many bytes.
uint8_t* value_fours(const Numbers& value, size_t block_bytes) {
  const size_t four_rows = (block_bytes - kLanes * sizeof(float)) / (kLanes / kCacheFour);
  return value.block + kLanes * sizeof(float) + value.lane / kCacheFour * four_rows +
         value.lane % kCacheFour;
}

void write_value_int8(const Numbers& value, size_t block_bytes) {
  uint8_t* fours = value_fours(value, block_bytes);
  value.set_scale(
      quantize_symmetric(value.from, value.head_dim, [&](size_t d, size_t, const int8_t* lanes) {
        for (size_t i = d; i < d + kLanes; ++i)
          fours[i * kCacheFour] = static_cast<uint8_t>(lanes[i - d]);
      }));
}

/// Quantizes numbers to 0 to 15; calls `put(first number, how many, 16 bytes)`; returns the scale.
template <typename Put>
float quantize_nibbles(const float* x, size_t count, Put put) {
  const float largest = largest_magnitude(x, count), scale = largest / kCacheMostNibble;
  const bool is_normal = scale >= FLT_MIN;
  constexpr float kMost = kCacheMostNibble;
  const F32x16 middle = broadcast(kMost / 2);
  const F32x16 inverse = broadcast(is_normal ? kMost / 2 / largest : 0.0f);
  each_vector(x, count, [&](size_t i, size_t used, F32x16 a) {
    const F32x16 steps = max(fused(a, inverse, middle), broadcast(0.0f));
    int8_t lanes[kLanes];
    store_bytes(lanes, round_to_int(min(steps, broadcast(kMost))));
    put(i, used, lanes);
  });
  return is_normal ? scale : 0.0f;
}

/// Writes a number to one half of a byte, the low one first.
inline void put_half(uint8_t* byte, bool high, int8_t number) {
  const auto bits = static_cast<uint8_t>(number);
  *byte = high ? static_cast<uint8_t>(*byte | bits << 4) : bits;
}

void write_key_int4(const Numbers& key) {
  uint8_t* fours = key.block + kLanes * sizeof(float) + key.lane * kCacheFour;
  key.set_scale(
      quantize_nibbles(key.from, key.head_dim, [&](size_t d, size_t count, const int8_t* lanes) {
        for (size_t i = d; i < d + count; ++i)
          put_half(fours + i / (2 * kCacheFour) * kLineBytes + i % kCacheFour,
                   i / kCacheFour % 2 == 1, lanes[i - d]);
      }));
}

void write_value_int4(const Numbers& value, size_t block_bytes) {
  uint8_t* fours = value_fours(value, block_bytes);
  value.set_scale(
      quantize_nibbles(value.from, value.head_dim, [&](size_t d, size_t, const int8_t* lanes) {
        for (size_t i = 0; i < kLanes; ++i)
          put_half(fours + d / (2 * kLanes) * kLineBytes + i * kCacheFour, d / kLanes % 2 == 1,
                   lanes[i]);
      }));
}

void write_integers(const CacheWriteArgs& args) {
  const size_t block = args.position / kLanes, lane = args.position % kLanes;
  const size_t key_bytes = key_cache_bytes(args.type, kLanes, args.head_dim);
  const size_t value_bytes = value_cache_bytes(args.type, kLanes, args.head_dim);
  uint8_t* keys = static_cast<uint8_t*>(args.keys) + block * key_bytes;
  uint8_t* values = static_cast<uint8_t*>(args.values) + block * value_bytes;
  const Numbers key{args.key, args.head_dim, lane, keys};
  const Numbers value{args.value, args.head_dim, lane, values};
  key_type(args.type) == CacheType::kInt8 ? write_key_int8(key) : write_key_int4(key);
  value_type(args.type) == CacheType::kInt8 ? write_value_int8(value, value_bytes)
                                            : write_value_int4(value, value_bytes);
}

}  // namespace

void write_cache(const CacheWriteArgs& args) {
  switch (args.type) {
    case CacheType::kFloat16:
      return write_floats<uint16_t>(args);
    case CacheType::kFloat32:
      return write_floats<float>(args);
    case CacheType::kInt8:
    case CacheType::kInt4:
    case CacheType::kInt8Int4:
      return write_integers(args);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
