#include "kernels/amx_int8/matmul.h"

#include <immintrin.h>

#include <algorithm>

#include "kernels/amx_int8/panel.h"
#include "kernels/amx_int8/tiles.h"
#include "kernels/amx_int8/variant.h"
#include "kernels/avx512vnni/outputs.h"

namespace thimble::kernels::amx_int8 {
namespace {

/// Products of two tiles of activations and two of weights: the most that fit the registers for
/// sums.
constexpr size_t kRows = kRowTiles * kTileRows;
constexpr size_t kPanelBlocks = kWeightTiles;
constexpr size_t kPanelStep = kPanelBlocks * kTileBytes;

/// Columns are taken in chunks of about kChunkTiles tiles: then a panel stays in the first-level
/// cache, and sums wait in memory from chunk to chunk. Counted, at most kMostChunkTiles.
constexpr size_t kChunkTiles = 8, kMostChunkTiles = 12;
/// Rows whose sums wait, and bytes of activations that stay in the second-level cache.
constexpr size_t kMostRows = 512, kResidentBytes = size_t{1} << 20;

constexpr size_t kPanelBytes = kMostChunkTiles * kPanelStep;
static_assert(kPanelBytes + kMostRows * kPanelBlocks * kBlockRows * sizeof(int32_t) <=
              linear_scratch_bytes(0));

/// Adds a row tile's `steps` tiles of columns times a panel to `sums`, [row tile][block][16][16].
/// They start from zero if `new_sums`.
template <size_t kTiles, size_t kBlocks>
inline void multiply(const int8_t* first, const int8_t* second, const uint8_t* panel, size_t steps,
                     bool new_sums, int32_t* sums) {
  constexpr bool kTwoTiles = kTiles == 2, kTwoBlocks = kBlocks == 2;
  if (new_sums) {
    zero_tile<0>();
    if constexpr (kTwoBlocks) zero_tile<1>();
    if constexpr (kTwoTiles) zero_tile<2>();
    if constexpr (kTwoTiles && kTwoBlocks) zero_tile<3>();
  } else {
    load_tile<0>(sums);
    if constexpr (kTwoBlocks) load_tile<1>(sums + kTileSums);
    if constexpr (kTwoTiles) load_tile<2>(sums + 2 * kTileSums);
    if constexpr (kTwoTiles && kTwoBlocks) load_tile<3>(sums + 3 * kTileSums);
  }
  for (; steps > 0; --steps) {
    load_tile<4>(first);
    load_tile<6>(panel);
    multiply_tiles<0, 4, 6>();
    if constexpr (kTwoBlocks) {
      load_tile<7>(panel + kTileBytes);
      multiply_tiles<1, 4, 7>();
    }
    if constexpr (kTwoTiles) {
      load_tile<5>(second);
      multiply_tiles<2, 5, 6>();
      if constexpr (kTwoBlocks) multiply_tiles<3, 5, 7>();
    }
    first += kTileBytes;
    second += kTileBytes;
    panel += kPanelStep;
  }
  store_tile<0>(sums);
  if constexpr (kTwoBlocks) store_tile<1>(sums + kTileSums);
  if constexpr (kTwoTiles) store_tile<2>(sums + 2 * kTileSums);
  if constexpr (kTwoTiles && kTwoBlocks) store_tile<3>(sums + 3 * kTileSums);
}

/// A tile of activations in its last 32 columns, followed by as many zeros.
struct LastColumns {
  alignas(kLineBytes) int8_t values[kTileBytes];

  explicit LastColumns(const int8_t* from) {
    for (size_t row = 0; row < kTileRows; ++row) {
      std::memcpy(values + row * kTileColumns, from + row * kColumnStep, kColumnStep);
      std::memset(values + row * kTileColumns + kColumnStep, 0, kColumnStep);
    }
  }
};

struct Range {
  size_t first;
  size_t last;  ///< one past
};

/// The packed weights that are unpacked next: two equal ranges of memory, prefetched step by step.
struct Ahead {
  const uint8_t* first;
  const uint8_t* second;
  size_t bytes;  ///< of each
  size_t done = 0;

  /// Prefetches the next of `parts` equal parts into the second-level cache.
  void fetch(size_t parts) {
    const size_t end = std::min(done + round_up(divide_up(bytes, parts), kLineBytes), bytes);
    for (; done < end; done += kLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(first + done), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(second + done), _MM_HINT_T1);
    }
  }
};

/// Multiplies one panel, kBlocks blocks by the columns of a chunk, with the activations of some
/// rows.
template <size_t kBlocks>
class PanelProduct {
 public:
  PanelProduct(const LinearArgs& args, const BlockLayout& layout, size_t block, Range rows)
      : args_(args),
        packed_(args.weight.data + block * layout.bytes),
        block_bytes_(layout.bytes),
        block_(block),
        rows_(rows),
        panel_(args.scratch),
        sums_(reinterpret_cast<int32_t*>(args.scratch + kPanelBytes)) {}

  /// The panel holds `columns`. At the same time, the next weights are prefetched and, during the
  /// last product of a row tile, the memory of its outputs.
  void run(Range columns, Ahead ahead) {
    int32_t* sums = sums_;
    const bool is_last = columns.last == args_.x.columns;
    const size_t row_tiles = divide_up(rows_.last - rows_.first, kRows);
    for (size_t m = rows_.first; m < rows_.last; m += kRows, sums += kSumTiles * kTileSums) {
      ahead.fetch(row_tiles);
      if (is_last) fetch_outputs(m);
      if (m + kTileRows < rows_.last) {
        run_tiles<2>(m, columns, sums);
      } else {
        run_tiles<1>(m, columns, sums);
      }
      if (is_last) finish(m, sums);
    }
  }

 private:
  template <size_t kTiles>
  void run_tiles(size_t m, Range columns, int32_t* sums) const {
    const int8_t* first = args_.x.values + m * args_.x.columns + columns.first * kTileRows;
    const int8_t* second = first + kTileRows * args_.x.columns;
    const bool new_sums = columns.first == 0;
    const size_t steps = (columns.last - columns.first) / kTileColumns;
    if (steps > 0) {
      multiply<kTiles, kBlocks>(first, second, panel_, steps, new_sums, sums);
    } else {
      const LastColumns first_end(first), second_end(kTiles == 2 ? second : first);
      multiply<kTiles, kBlocks>(first_end.values, second_end.values, panel_, 1, new_sums, sums);
    }
  }

  void fetch_outputs(size_t m) const {
    const size_t n = block_ * kBlockRows;
    for (size_t r = 0; r < kRows && m + r < rows_.last; ++r)
      for (size_t b = 0; b < kBlocks; ++b)
        __builtin_prefetch(args_.y + (m + r) * args_.y_stride + n + b * kBlockRows, 1);
  }

  void finish(size_t m, const int32_t* sums) const {
    with_activation_if_any(args_.activation, [&](auto activation) {
      for (size_t b = 0; b < kBlocks; ++b) {
        const BlockOutputs outputs(args_, block_ + b);
        for (size_t r = 0; r < std::min(kRows, rows_.last - m); ++r) {
          const size_t tile = r / kTileRows * kPanelBlocks + b;
          outputs.store(m + r, load(sums + tile * kTileSums + r % kTileRows * kBlockRows), 0,
                        activation);
        }
      }
    });
  }

  const LinearArgs& args_;
  const uint8_t* packed_;
  size_t block_bytes_;
  size_t block_;
  Range rows_;
  const uint8_t* panel_;
  int32_t* sums_;
};

/// Columns of the chunk that starts at `first`: whole tiles of equal number, then the 32 left.
size_t chunk_end(size_t first, size_t columns) {
  const size_t tiles = columns / kTileColumns;
  if (first == tiles * kTileColumns) return columns;
  const size_t chunks = std::max<size_t>(1, (tiles + kChunkTiles / 2) / kChunkTiles);
  return std::min(first + divide_up(tiles, chunks) * kTileColumns, tiles * kTileColumns);
}

/// `unpack(packed, columns, panel)` unpacks the columns of a chunk of one block.
template <size_t kBlocks, typename Unpack>
void multiply_panel(const LinearArgs& args, const BlockLayout& layout, size_t block, Range rows,
                    Unpack unpack) {
  PanelProduct<kBlocks> product(args, layout, block, rows);
  const uint8_t* packed = args.weight.data + block * layout.bytes;
  const size_t line_bytes = (layout.bytes - layout.values) / args.x.columns;  // of one column
  for (Range chunk{0, 0}; chunk.first < args.x.columns; chunk.first = chunk.last) {
    chunk.last = chunk_end(chunk.first, args.x.columns);
    for (size_t b = 0; b < kBlocks; ++b)
      unpack(packed + b * layout.bytes, chunk, args.scratch + b * kTileBytes);
    const uint8_t* next = chunk.last < args.x.columns
                              ? packed + layout.values + chunk.last * line_bytes
                              : packed + kBlocks * layout.bytes;
    product.run(chunk, {next, next + layout.bytes, (chunk.last - chunk.first) * line_bytes});
  }
}

template <typename Unpack>
void matmul(const LinearArgs& args, Unpack unpack) {
  const TileScope tiles(kTileColumns);
  const BlockLayout layout = args.weight.layout();
  const size_t resident = kResidentBytes / args.x.columns / kRows * kRows;
  const size_t most_rows = std::clamp(resident, kRows, kMostRows);
  for (Range rows{0, 0}; rows.first < args.x.rows; rows.first = rows.last) {
    rows.last = std::min(rows.first + most_rows, args.x.rows);
    for (size_t block = args.first_block; block < args.last_block; block += kPanelBlocks) {
      if (block + 1 < args.last_block) {
        multiply_panel<2>(args, layout, block, rows, unpack);
      } else {
        multiply_panel<1>(args, layout, block, rows, unpack);
      }
    }
  }
}

template <size_t kBits>
void matmul_two_level(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  matmul(args, [&](const uint8_t* packed, Range columns, uint8_t* panel) {
    unpack_two_level<kBits, kPanelStep>(packed, layout, args.weight.group_size, columns.first,
                                        columns.last, panel);
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
  matmul(args, [&](const uint8_t* packed, Range columns, uint8_t* panel) {
    unpack_int8<kPanelStep>(packed + layout.values, columns.first, columns.last, panel);
  });
}

}  // namespace thimble::kernels::amx_int8
