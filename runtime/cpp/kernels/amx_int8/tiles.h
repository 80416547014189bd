#pragma once

#include <immintrin.h>

#include "kernels/layout/layout.h"

namespace thimble::kernels::amx_int8 {

constexpr size_t kTileRows = 16;
constexpr size_t kTileBytes = kTileRows * kLineBytes;  ///< also of 16 x 16 sums
constexpr size_t kTileSums = kTileRows * kBlockRows;
/// The tile registers: sums in 0 .. 3, activations in 4 and 5, weights in 6 and 7.
constexpr int kSumTiles = 4, kRowTiles = 2, kWeightTiles = 2;

/// The tile registers while in use: 16 rows of activations by `columns` (32 or 64) columns, weights
/// [columns / 4][16][4], and their 16 x 16 sums. Released at the end, so that the operating system
/// has no tiles to save and the CPU keeps its clock.
class TileScope {
 public:
  explicit TileScope(size_t columns) {
    Configuration configuration{};
    configuration.palette = 1;
    for (int tile = 0; tile < kSumTiles + kRowTiles + kWeightTiles; ++tile) {
      const bool is_rows = tile >= kSumTiles && tile < kSumTiles + kRowTiles;
      const bool is_weights = tile >= kSumTiles + kRowTiles;
      configuration.row_bytes[tile] = static_cast<uint16_t>(is_rows ? columns : kLineBytes);
      configuration.rows[tile] = static_cast<uint8_t>(is_weights ? columns / 4 : kTileRows);
    }
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  ~TileScope() { asm volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  /// As LDTILECFG reads it (Intel SDM, volume 1, section 18.3).
  struct alignas(kLineBytes) Configuration {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
};

// One instruction each. The compiler's own intrinsics accept tile numbers only from the
// preprocessor, and do not declare that they read memory.

/// Loads a tile of rows `stride` bytes apart.
template <int kTile>
[[gnu::always_inline]] inline void load_tile(const void* from, size_t stride = kLineBytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
/// Stores a tile of sums.
template <int kTile>
[[gnu::always_inline]] inline void store_tile(int32_t* to) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(kLineBytes), "i"(kTile)
               : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
/// Adds the products of signed activations and signed weights to sums.
template <int kSums, int kActivations, int kWeights>
[[gnu::always_inline]] inline void multiply_tiles() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSums), "i"(kActivations), "i"(kWeights));
}

}  // namespace thimble::kernels::amx_int8
