#include <immintrin.h>

#include <cstring>

#include "bench/limits/limits.h"
#include "kernels/select/cpu_features.h"

#if defined(THIMBLE_AMX_INT8)
#include "kernels/amx_int8/tiles.h"
#endif

namespace thimble::bench {
namespace {

uint64_t read_words(const uint8_t* data, size_t size) {
  uint64_t total = 0, words[8];
  for (size_t i = 0; i < size; i += sizeof words) {
    std::memcpy(words, data + i, sizeof words);
    for (const uint64_t word : words) total ^= word;
  }
  return total;
}

[[gnu::target("avx2")]] uint64_t read(const uint8_t* data, size_t size) {
  __m256i sums[4] = {};
  for (size_t i = 0; i < size; i += 128) {
    for (size_t line = 0; line < 128; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(data + i + line + 4096), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(data + i + line + 512), _MM_HINT_T0);
    }
    const __m256i* vectors = reinterpret_cast<const __m256i*>(data + i);
    sums[0] = _mm256_xor_si256(sums[0], vectors[0]);
    sums[1] = _mm256_xor_si256(sums[1], vectors[1]);
    sums[2] = _mm256_xor_si256(sums[2], vectors[2]);
    sums[3] = _mm256_xor_si256(sums[3], vectors[3]);
  }
  const __m256i low = _mm256_xor_si256(sums[0], sums[1]);
  const __m256i all = _mm256_xor_si256(low, _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

/// So many products of 4 bits with 8 are added in 16 bits before the sums need 32: those of 32
/// columns.
constexpr size_t kWordSums = 8;

/// Without a dot product instruction: pairs into 16 bits, sums of those, and pairs of the sums into
/// 32.
[[gnu::target("avx2")]] uint64_t multiply_avx2(size_t loops) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, p, q, r, s;
  const __m256i x = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  for (; loops > 0; --loops) {
    __m256i e = _mm256_setzero_si256(), f = e, g = e, h = e;
#pragma GCC unroll 8
    for (size_t i = 0; i < kWordSums; ++i)
      asm("vpmaddubsw %8, %8, %4\n\tvpmaddubsw %8, %8, %5\n\t"
          "vpmaddubsw %8, %8, %6\n\tvpmaddubsw %8, %8, %7\n\t"
          "vpaddw %4, %0, %0\n\tvpaddw %5, %1, %1\n\tvpaddw %6, %2, %2\n\tvpaddw %7, %3, %3"
          : "+x"(e), "+x"(f), "+x"(g), "+x"(h), "=&x"(p), "=&x"(q), "=&x"(r), "=&x"(s)
          : "x"(x));
    asm("vpmaddwd %8, %4, %4\n\tvpmaddwd %8, %5, %5\n\t"
        "vpmaddwd %8, %6, %6\n\tvpmaddwd %8, %7, %7\n\t"
        "vpaddd %4, %0, %0\n\tvpaddd %5, %1, %1\n\tvpaddd %6, %2, %2\n\tvpaddd %7, %3, %3"
        : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h)
        : "x"(ones));
  }
  a = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
  return static_cast<uint64_t>(_mm256_extract_epi64(a, 0));
}

#if defined(THIMBLE_AVXVNNI)

/// Twelve independent chains, more than latency times ports.
[[gnu::target("avx2")]] uint64_t multiply_avx_vnni(size_t loops) {
  __m256i a = _mm256_set1_epi32(1), b = a, c = a, d = a, e = a, f = a;
  __m256i g = a, h = a, i = a, j = a, k = a, l = a;
  const __m256i x = _mm256_set1_epi8(3);
  for (; loops > 0; --loops)
    asm("%{vex%} vpdpbusd %12, %12, %0\n\t%{vex%} vpdpbusd %12, %12, %1\n\t"
        "%{vex%} vpdpbusd %12, %12, %2\n\t%{vex%} vpdpbusd %12, %12, %3\n\t"
        "%{vex%} vpdpbusd %12, %12, %4\n\t%{vex%} vpdpbusd %12, %12, %5\n\t"
        "%{vex%} vpdpbusd %12, %12, %6\n\t%{vex%} vpdpbusd %12, %12, %7\n\t"
        "%{vex%} vpdpbusd %12, %12, %8\n\t%{vex%} vpdpbusd %12, %12, %9\n\t"
        "%{vex%} vpdpbusd %12, %12, %10\n\t%{vex%} vpdpbusd %12, %12, %11"
        : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j),
          "+x"(k), "+x"(l)
        : "x"(x));
  a = a + b + c + d + e + f + g + h + i + j + k + l;
  return static_cast<uint64_t>(a[0]);
}

#endif

/// The same of 64 bytes.
[[gnu::target("avx512f,avx512vnni")]] uint64_t multiply_vnni(size_t loops) {
  __m512i a = _mm512_set1_epi32(1), b = a, c = a, d = a, e = a, f = a;
  __m512i g = a, h = a, i = a, j = a, k = a, l = a;
  const __m512i x = _mm512_set1_epi8(3);
  for (; loops > 0; --loops)
    asm("vpdpbusd %12, %12, %0\n\tvpdpbusd %12, %12, %1\n\tvpdpbusd %12, %12, %2\n\t"
        "vpdpbusd %12, %12, %3\n\tvpdpbusd %12, %12, %4\n\tvpdpbusd %12, %12, %5\n\t"
        "vpdpbusd %12, %12, %6\n\tvpdpbusd %12, %12, %7\n\tvpdpbusd %12, %12, %8\n\t"
        "vpdpbusd %12, %12, %9\n\tvpdpbusd %12, %12, %10\n\tvpdpbusd %12, %12, %11"
        : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j),
          "+v"(k), "+v"(l)
        : "v"(x));
  a = a + b + c + d + e + f + g + h + i + j + k + l;
  return static_cast<uint64_t>(a[0]);
}

#if defined(THIMBLE_AMX_INT8)

/// As many sums as a product has registers for, of two tiles by two.
uint64_t multiply_amx(size_t loops) {
  using namespace kernels::amx_int8;
  const TileScope tiles(kernels::kLineBytes);  // which also sets all of them to zero
  for (; loops > 0; --loops) {
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 7>();
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
  }
  int32_t sums[kTileSums];
  store_tile<0>(sums);
  return static_cast<uint64_t>(sums[0]);
}

/// Weights that stay in the first-level cache and activations that stay in the second; not
/// zeros, which are multiplied faster.
uint64_t multiply_amx_cached(size_t loops) {
  using namespace kernels::amx_int8;
  constexpr size_t kWeightBytes = size_t{16} << 10, kActivationBytes = size_t{256} << 10;
  alignas(kernels::kLineBytes) static int8_t bytes[kWeightBytes + kActivationBytes];
  std::memset(bytes, 3, sizeof bytes);
  const int8_t *const weights = bytes, *const activations = bytes + kWeightBytes;
  const TileScope tiles(kernels::kLineBytes);
  for (size_t loop = 0; loop < loops; ++loop) {
    const int8_t* weight = weights + loop * 2 * kTileBytes % kWeightBytes;
    const int8_t* activation = activations + loop * 2 * kTileBytes % kActivationBytes;
    load_tile<4>(activation);
    load_tile<6>(weight);
    multiply_tiles<0, 4, 6>();
    load_tile<7>(weight + kTileBytes);
    multiply_tiles<1, 4, 7>();
    load_tile<5>(activation + kTileBytes);
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
  }
  int32_t sums[kTileSums];
  store_tile<0>(sums);
  return static_cast<uint64_t>(sums[0]);
}

#endif

}  // namespace

Limits limits(uint32_t features) {
  if ((features & kernels::kAvx2) == 0) return {read_words, nullptr, 0, ""};
#if defined(THIMBLE_AVXVNNI)
  if ((features & (kernels::kAvx512Vnni | kernels::kAvxVnni)) == kernels::kAvxVnni)
    return {read, multiply_avx_vnni, size_t{12} * 64, "vpdpbusd ymm"};
#endif
  if ((features & kernels::kAvx512Vnni) == 0)
    return {read, multiply_avx2, kWordSums * 4 * 64, "vpmaddubsw"};
#if defined(THIMBLE_AMX_INT8)
  if ((features & kernels::kAmxInt8) != 0) {
    return {read, multiply_amx, size_t{4} * 2 * 16 * 16 * 64, "tdpbssd", multiply_amx_cached};
  }
#endif
  return {read, multiply_vnni, size_t{12} * 128, "vpdpbusd"};
}

Limits limits() { return limits(kernels::cpu_features()); }

}  // namespace thimble::bench
