#include "kernels/avxvnni/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"

namespace thimble::kernels::avxvnni {
namespace {

constexpr size_t kRows = kTile.mr;
constexpr size_t kStep = kTile.mr * kTile.kr;  // bytes of a tile for 4 columns

/// Adds the products of kCount of a tile's rows with a block of unsigned bytes, [columns / 4][16]
/// [4], all in registers.
template <size_t kCount>
[[gnu::always_inline]] inline void multiply(const int8_t* x, const uint8_t* panel, size_t columns,
                                            __m256i (&acc)[kCount][kHalves]) {
  constexpr size_t kSteps = kColumnStep / 8;  // fewer counters to keep per product
  for (; columns > 0; columns -= 4 * kSteps) {
    unrolled<kSteps>([&](auto step) [[gnu::always_inline]] {
      __m256i weights[kHalves];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        weights[h] = _mm256_load_si256(as_vector(panel + step * kLineBytes + h * kHalfLine));
      });
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        int32_t four;
        std::memcpy(&four, x + step * kStep + 4 * r, sizeof four);
        const __m256i fours = _mm256_set1_epi32(four);
        unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
          acc[r][h] = dpbusd(acc[r][h], weights[h], fours);
        });
      });
    });
    x += kSteps * kStep;
    panel += kSteps * kLineBytes;
  }
}

/// A block whose rows have one scale, of which the panel holds value * multiple + 128.
void multiply_tiles(const LinearArgs& args, size_t block, const uint8_t* packed) {
  const QuantizedRows& rows = args.x;
  for (size_t m = 0; m < rows.rows; m += kRows) {
    __m256i acc[kRows][kHalves];
    unrolled<kRows>(
        [&](auto r) { unrolled<kHalves>([&](auto h) { acc[r][h] = _mm256_setzero_si256(); }); });
    multiply(rows.values + m * rows.columns, args.scratch, rows.columns, acc);
    I32x16 sums[kRows];
    unrolled<kRows>([&](auto r) { sums[r] = {acc[r][0], acc[r][1]}; });
    for (size_t r = 0; r < kRows && m + r < rows.rows; ++r) {
      const I32x16 surplus = broadcast(128 * rows.params[m + r].sum);
      store_totals(args, m + r, block, sub(sums[r], surplus), packed);
    }
  }
}

/// A block with a scale for each group, of which the panel holds value + kOffset. Half a tile at a
/// time leaves registers for a float sum beside each integer one.
template <uint32_t kOffset>
void multiply_groups(const LinearArgs& args, size_t block, const uint8_t* packed) {
  constexpr size_t kHalf = kRows / 2;
  const QuantizedRows& rows = args.x;
  const size_t columns = rows.columns, group_size = args.weight.group_size;
  for (size_t m = 0; m < rows.rows; m += kHalf) {
    const size_t tile = m / kRows * kRows, row = m % kRows;
    const int8_t* x = rows.values + tile * columns + row * 4;
    const int32_t* bias = rows.group_bias + tile * (columns / kColumnStep) + row;
    const float* input_scales = rows.group_scales + tile * (columns / group_size) + row;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed);
    const uint8_t* panel = args.scratch;
    F32x16 total[kHalf];
    unrolled<kHalf>([&](auto r) { total[r] = broadcast(0.0f); });
    for (size_t k = 0; k < columns; k += group_size) {
      __m256i acc[kHalf][kHalves];
      unrolled<kHalf>([&](auto r) [[gnu::always_inline]] {
        int32_t sum = 0;
        for (size_t step = 0; step < group_size / kColumnStep; ++step)
          sum += offset_bias<kOffset>(bias[step * kRows + r]);
        unrolled<kHalves>([&](auto h)
                              [[gnu::always_inline]] { acc[r][h] = _mm256_set1_epi32(sum); });
      });
      multiply(x, panel, group_size, acc);
      const F32x16 scale = load_half(scales);
      unrolled<kHalf>([&](auto r) [[gnu::always_inline]] {
        const F32x16 both = mul(scale, broadcast(input_scales[r]));
        total[r] = fused(to_float(I32x16{acc[r][0], acc[r][1]}), both, total[r]);
      });
      x += group_size / 4 * kStep;
      bias += group_size / kColumnStep * kRows;
      input_scales += kRows;
      scales += kBlockRows;
      panel += group_size * kBlockRows;
    }
    for (size_t r = 0; r < kHalf && m + r < rows.rows; ++r)
      store_totals(args, m + r, block, total[r], packed);
  }
}

/// Unpacks block after block, `unpack(packed, panel)`, and multiplies it, which stays in the
/// caches, with every tile.
template <typename Unpack, typename Multiply>
void matmul(const LinearArgs& args, Unpack unpack, Multiply multiply_block) {
  const size_t block_bytes = args.weight.layout().bytes;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * block_bytes;
    unpack(packed, args.scratch);
    multiply_block(args, block, packed);
  }
}

/// value * multiple + 128 of 8 weight rows: 128 + the largest value * multiple, less the codes by
/// the multiples, which fit bytes, so that two bytes multiply as one 16-bit number.
template <size_t kBits>
class GroupFactors {
 public:
  /// \param multiples the group's, in the low bits of 32.
  explicit GroupFactors(__m256i multiples) {
    const __m256i single = _mm256_and_si256(multiples, _mm256_set1_epi32(15));
    words_ = _mm256_or_si256(single, _mm256_slli_epi32(single, 16));
    const __m256i bytes = _mm256_or_si256(words_, _mm256_slli_epi16(words_, 8));
    const __m256i eightfold = _mm256_slli_epi32(bytes, kBits < 4 ? 3 : kBits - 1);
    const __m256i largest = kBits == 3 ? eightfold : _mm256_sub_epi8(eightfold, bytes);
    largest_ = _mm256_add_epi8(largest, _mm256_set1_epi8(-128));
  }
  [[gnu::always_inline]] __m256i values(__m256i codes) const {
    return _mm256_sub_epi8(largest_, _mm256_mullo_epi16(codes, words_));
  }

 private:
  __m256i words_, largest_;
};

template <size_t kBits>
void matmul_two_level(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  const size_t group_size = args.weight.group_size;
  const auto unpack = [&](const uint8_t* packed, uint8_t* panel) {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(packed + layout.scales);
    const uint8_t* lines = packed + layout.values;
    for (size_t k = 0, group = 0; k < args.weight.columns; k += group_size, ++group) {
      const uint32_t* multiples = words + group / 8 * kBlockRows;
      const int shift = static_cast<int>(group % 8 * 4);
      const GroupFactors<kBits> factors[kHalves] = {
          GroupFactors<kBits>(_mm256_srli_epi32(_mm256_load_si256(as_vector(multiples)), shift)),
          GroupFactors<kBits>(
              _mm256_srli_epi32(_mm256_load_si256(as_vector(multiples + 8)), shift))};
      for (size_t i = 0; i < group_size; i += kColumnStep, lines += step_bytes(kBits)) {
        unrolled<kColumnStep / 4>([&](auto quad) [[gnu::always_inline]] {
          unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
            const __m256i codes = Packed<kBits>::template codes<quad>(lines + h * kHalfLine);
            _mm256_store_si256(as_vector(panel + h * kHalfLine), factors[h].values(codes));
          });
          panel += kLineBytes;
        });
      }
    }
  };
  matmul(args, unpack, multiply_tiles);
}

/// Of int8, of which the panel holds value + 128.
template <typename Multiply>
void matmul_bytes(const LinearArgs& args, Multiply multiply_block) {
  const BlockLayout layout = args.weight.layout();
  const auto unpack = [&](const uint8_t* packed, uint8_t* panel) {
    const uint8_t* lines = packed + layout.values;
    const __m256i flip = _mm256_set1_epi8(-128);
    for (size_t i = 0; i < args.weight.columns * kBlockRows; i += kHalfLine)
      _mm256_store_si256(as_vector(panel + i),
                         _mm256_xor_si256(_mm256_load_si256(as_vector(lines + i)), flip));
  };
  matmul(args, unpack, multiply_block);
}

}  // namespace

void matmul_int2_two_level(const LinearArgs& args) { matmul_two_level<2>(args); }
void matmul_int3_two_level(const LinearArgs& args) { matmul_two_level<3>(args); }
void matmul_int4_two_level(const LinearArgs& args) { matmul_two_level<4>(args); }
void matmul_int5_two_level(const LinearArgs& args) { matmul_two_level<5>(args); }
void matmul_int6_two_level(const LinearArgs& args) { matmul_two_level<6>(args); }

void matmul_int4(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  const auto unpack = [&](const uint8_t* packed, uint8_t* panel) {
    const uint8_t* lines = packed + layout.values;
    for (size_t k = 0; k < args.weight.columns; k += kColumnStep, lines += step_bytes(4))
      unrolled<kColumnStep / 4>([&](auto quad) [[gnu::always_inline]] {
        unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
          const __m256i codes = Packed<4>::codes<quad>(lines + h * kHalfLine);
          _mm256_store_si256(as_vector(panel), _mm256_xor_si256(codes, _mm256_set1_epi8(15)));
          panel += kHalfLine;
        });
      });
  };
  matmul(args, unpack, multiply_groups<8>);  // a code is 7 - value
}

void matmul_int8(const LinearArgs& args) { matmul_bytes(args, multiply_tiles); }
void matmul_int8_groups(const LinearArgs& args) { matmul_bytes(args, multiply_groups<128>); }

}  // namespace thimble::kernels::avxvnni
