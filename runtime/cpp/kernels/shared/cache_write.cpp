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

void write_int8(const CacheWriteArgs& args) {
  const size_t padded_dim = round_up(args.head_dim, kLanes);
  const size_t block = args.position / kLanes, lane = args.position % kLanes;
  uint8_t* keys =
      static_cast<uint8_t*>(args.keys) + block * cache_block_bytes(args.type, args.head_dim);
  uint8_t* values =
      static_cast<uint8_t*>(args.values) + block * cache_block_bytes(args.type, padded_dim);
  uint8_t* key_fours = keys + kLanes * sizeof(float) + lane * kCacheFour;
  uint8_t* value_fours = values + kLanes * sizeof(float) +
                         lane / kCacheFour * kCacheFour * padded_dim + lane % kCacheFour;
  reinterpret_cast<float*>(keys)[lane] =
      quantize_symmetric(args.key, args.head_dim, [&](size_t d, size_t count, const int8_t* lanes) {
        for (size_t i = d; i < d + count; ++i)
          key_fours[i / kCacheFour * kLineBytes + i % kCacheFour] =
              static_cast<uint8_t>(lanes[i - d] + kCacheBias);
      });
  reinterpret_cast<float*>(values)[lane] =
      quantize_symmetric(args.value, args.head_dim, [&](size_t d, size_t, const int8_t* lanes) {
        for (size_t i = d; i < d + kLanes; ++i)
          value_fours[i * kCacheFour] = static_cast<uint8_t>(lanes[i - d]);
      });
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
