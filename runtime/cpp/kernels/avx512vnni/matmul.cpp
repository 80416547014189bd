#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "kernels/avx512vnni/dot.h"
#include "kernels/avx512vnni/outputs.h"
#include "kernels/avx512vnni/panel.h"
#include "kernels/avx512vnni/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::avx512vnni {
namespace {

constexpr size_t kRows = kTile.mr;
constexpr size_t kStep = kTile.mr * kTile.kr;  // bytes of a tile for 4 columns

/// kCount of a tile's rows times a panel's kBlocks * 16, all in registers, for steps of 4 columns.
/// Four activations are broadcast to a register: as memory operands they would need twice the
/// loads, more than the CPU's ports can do.
/// \param meanwhile other work, called every few steps: products leave most ports to it.
template <size_t kBlocks, size_t kCount, typename Meanwhile>
[[gnu::always_inline]] inline void multiply(const int8_t* x, const uint8_t* panel, size_t columns,
                                            __m512i (&acc)[kBlocks][kCount], Meanwhile meanwhile) {
  constexpr size_t kSteps = kColumnStep / 8;  // fewer counters to keep per product
  for (; columns > 0; columns -= 4 * kSteps) {
    unrolled<kSteps>([&](auto step) [[gnu::always_inline]] {
      __m512i weights[kBlocks];
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
        weights[b] = _mm512_load_si512(panel + step * kPanelStep + b * kLineBytes);
      });
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        const __m512i four = broadcast_four(x + step * kStep + 4 * r);
        unrolled<kBlocks>(
            [&](auto b) [[gnu::always_inline]] { acc[b][r] = dot(acc[b][r], weights[b], four); });
      });
    });
    x += kSteps * kStep;
    panel += kSteps * kPanelStep;
    meanwhile();
  }
}

/// Stores the accumulators of kCount rows in memory, so that one loop can finish them.
template <size_t kBlocks, size_t kCount, typename Vector>
struct Totals {
  Vector of[kCount][kBlocks];

  explicit Totals(const Vector (&acc)[kBlocks][kCount]) {
    unrolled<kBlocks>([&](auto b) { unrolled<kCount>([&](auto r) { of[r][b] = acc[b][r]; }); });
  }
};

/// Rows of activations from `first` to `last`: complete tiles, except at the very end.
struct RowRange {
  size_t first;
  size_t last;
};

/// The sums of a tile, which become outputs while the next tile is multiplied. An activation is too
/// long a chain for that: the processor would run out of registers for what is under way.
template <size_t kBlocks, typename Activation>
class TileOutputs {
 public:
  TileOutputs(const BlockOutputs (&blocks)[kBlocks], Activation activation)
      : blocks_(blocks), activation_(activation) {}

  /// Takes the sums of `count` rows from `m` on, where none are left.
  [[gnu::always_inline]] void take(size_t m, size_t count, const __m512i (&acc)[kBlocks][kRows]) {
    unrolled<kBlocks>([&](auto b) { unrolled<kRows>([&](auto r) { sums_[r][b] = acc[b][r]; }); });
    first_ = m;
    next_ = 0;
    count_ = count * kBlocks;
    if constexpr (!kWaits) {
      store_rest();
    } else {
      for (size_t r = 0; r < count; ++r)
        for (const BlockOutputs& block : blocks_) block.prefetch(m + r);
    }
  }
  /// Stores the outputs of a row and block, if one is left.
  [[gnu::always_inline]] void store_next() {
    if (next_ == count_ || !kWaits) return;
    store_one();
  }
  void store_rest() {
    while (next_ < count_) store_one();
  }

 private:
  static constexpr bool kWaits = std::is_same_v<Activation, Unchanged>;
  static constexpr int32_t kSurplus = 128;

  [[gnu::always_inline]] void store_one() {
    const size_t row = next_ / kBlocks, block = next_ % kBlocks;
    blocks_[block].store(first_ + row, sums_[row][block], kSurplus, activation_);
    ++next_;
  }
  const BlockOutputs (&blocks_)[kBlocks];
  const Activation activation_;
  __m512i sums_[kRows][kBlocks];
  size_t first_ = 0, next_ = 0, count_ = 0;
};

/// Multiplies a range's tiles of activations with a panel of value + 128.
template <size_t kBlocks, typename Activation>
[[gnu::noinline]] void multiply_tiles(const LinearArgs& args, const BlockOutputs (&blocks)[kBlocks],
                                      RowRange range, Activation activation) {
  TileOutputs<kBlocks, Activation> outputs(blocks, activation);
  for (size_t m = range.first; m < range.last; m += kRows) {
    __m512i acc[kBlocks][kRows];
    unrolled<kBlocks>(
        [&](auto b) { unrolled<kRows>([&](auto r) { acc[b][r] = _mm512_setzero_si512(); }); });
    multiply<kBlocks, kRows>(args.x.values + m * args.x.columns, args.scratch, args.x.columns, acc,
                             [&]() [[gnu::always_inline]] { outputs.store_next(); });
    outputs.store_rest();
    outputs.take(m, std::min(kRows, args.x.rows - m), acc);
  }
  outputs.store_rest();
}

/// Multiplies a range's tiles with the panel of some blocks. Not a template of how they are
/// unpacked, as activations already make many of it.
template <size_t kBlocks>
[[gnu::noinline]] void multiply_panel(const LinearArgs& args, const BlockOutputs (&blocks)[kBlocks],
                                      RowRange range) {
  with_activation_if_any(args.activation,
                         [&](auto activation) { multiply_tiles(args, blocks, range, activation); });
}

/// Bytes of activations that stay in the second-level cache together with a panel.
constexpr size_t kResidentBytes = size_t{1} << 21;

/// Unpacks panel after panel and multiplies it, for as many rows at a time as stay in the cache.
/// `unpack(packed, panel)` unpacks one block.
template <typename Unpack>
void matmul(const LinearArgs& args, Unpack unpack) {
  const BlockLayout layout = args.weight.layout();
  const size_t tiles = kResidentBytes / (kRows * args.x.columns);
  const size_t most_rows = kRows * (tiles > 0 ? tiles : 1);
  for (RowRange range{0, 0}; range.first < args.x.rows; range.first = range.last) {
    range.last = args.x.rows - range.first > most_rows ? range.first + most_rows : args.x.rows;
    for (size_t block = args.first_block; block < args.last_block; block += kPanelBlocks) {
      const uint8_t* packed = args.weight.data + block * layout.bytes;
      unpack(packed, args.scratch);
      if (block + 1 == args.last_block) {
        multiply_panel<1>(args, {{args, block}}, range);
      } else {
        unpack(packed + layout.bytes, args.scratch + kLineBytes);
        multiply_panel<kPanelBlocks>(args, {{args, block}, {args, block + 1}}, range);
      }
    }
  }
}

/// With a scale for each group: half a tile at a time leaves registers for a float accumulator
/// beside each integer one.
constexpr size_t kHalf = kRows / 2;

/// The panel holds value + kOffset.
template <size_t kBlocks, uint32_t kOffset>
void multiply_half_tile(const LinearArgs& args, const BlockLayout& layout, size_t first_block,
                        size_t m) {
  const size_t columns = args.x.columns, group_size = args.weight.group_size;
  const int8_t* x = args.x.values + m / kRows * kRows * columns + m % kRows * 4;
  const int32_t* bias = args.x.group_bias + m / kRows * kRows * (columns / kColumnStep) + m % kRows;
  const float* input_scales =
      args.x.group_scales + m / kRows * kRows * (columns / group_size) + m % kRows;
  const uint8_t* panel = args.scratch;
  const uint8_t* first_packed = args.weight.data + first_block * layout.bytes;
  __m512 total[kBlocks][kHalf];
  unrolled<kBlocks>(
      [&](auto b) { unrolled<kHalf>([&](auto r) { total[b][r] = _mm512_setzero_ps(); }); });
  for (size_t k = 0; k < columns; k += group_size) {
    __m512i acc[kBlocks][kHalf];
    unrolled<kHalf>([&](auto r) [[gnu::always_inline]] {
      int32_t sum = 0;
      for (size_t step = k / kColumnStep; step < (k + group_size) / kColumnStep; ++step)
        sum += offset_bias<kOffset>(bias[step * kRows + r]);
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] { acc[b][r] = _mm512_set1_epi32(sum); });
    });
    multiply<kBlocks, kHalf>(x, panel, group_size, acc, [] {});
    x += group_size / 4 * kStep;
    panel += group_size / 4 * kPanelStep;
    unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
      const uint8_t* scales = first_packed + b * layout.bytes + layout.scales;
      const __m512 scale =
          load_half(reinterpret_cast<const uint16_t*>(scales) + k / group_size * kBlockRows);
      unrolled<kHalf>([&](auto r) [[gnu::always_inline]] {
        const __m512 both = mul(scale, broadcast(input_scales[r]));
        total[b][r] = fused(to_float(acc[b][r]), both, total[b][r]);
      });
    });
    input_scales += kRows;
  }
  const Totals totals(total);
  for (size_t r = 0; r < kHalf && m + r < args.x.rows; ++r)
    for (size_t b = 0; b < kBlocks; ++b)
      store_outputs(args, m + r, first_block + b, totals.of[r][b]);
}

/// `unpack(lines, columns, panel)` unpacks one block to value + kOffset.
template <uint32_t kOffset, typename Unpack>
void matmul_in_groups(const LinearArgs& args, Unpack unpack) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; block += kPanelBlocks) {
    const uint8_t* lines = args.weight.data + block * layout.bytes + layout.values;
    const bool both = block + 1 < args.last_block;
    unpack(lines, args.weight.columns, args.scratch);
    if (both) unpack(lines + layout.bytes, args.weight.columns, args.scratch + kLineBytes);
    for (size_t m = 0; m < args.x.rows; m += kHalf) {
      if (both) {
        multiply_half_tile<kPanelBlocks, kOffset>(args, layout, block, m);
      } else {
        multiply_half_tile<1, kOffset>(args, layout, block, m);
      }
    }
  }
}

template <size_t kBits>
void matmul_two_level(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  matmul(args, [&](const uint8_t* packed, uint8_t* panel) {
    unpack_two_level<kBits>(packed, layout, args.weight.columns, args.weight.group_size, panel);
  });
}

}  // namespace

void matmul_int2_two_level(const LinearArgs& args) { matmul_two_level<2>(args); }
void matmul_int3_two_level(const LinearArgs& args) { matmul_two_level<3>(args); }
void matmul_int4_two_level(const LinearArgs& args) { matmul_two_level<4>(args); }
void matmul_int5_two_level(const LinearArgs& args) { matmul_two_level<5>(args); }
void matmul_int6_two_level(const LinearArgs& args) { matmul_two_level<6>(args); }

void matmul_int8(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  matmul(args, [&](const uint8_t* packed, uint8_t* panel) {
    unpack_int8(packed + layout.values, args.weight.columns, panel);
  });
}

void matmul_int4(const LinearArgs& args) { matmul_in_groups<8>(args, unpack_int4); }
void matmul_int8_groups(const LinearArgs& args) { matmul_in_groups<128>(args, unpack_int8); }

}  // namespace thimble::kernels::avx512vnni
