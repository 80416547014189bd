#pragma once

#include <vector>

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// What an adapter adds to some rows of a linear's weight: y += scale * (x a^T) b (Hu et al.,
/// 2021).
struct LowRank {
  uint32_t adapter;    ///< of the program
  uint32_t first_row;  ///< of the weight; of a gated one 0: gate, or kBlockRows: up
  uint32_t rows;
  uint32_t rank;
  uint64_t a;  ///< offset in the adapter's numbers of [rank][columns]
  uint64_t b;  ///< of [blocks of 16 rows][rank][16]
  float scale;
};

/// The adapter that a call runs with.
struct CallAdapter {
  int32_t index = -1;                 ///< in the program; -1: none
  const uint16_t* numbers = nullptr;  ///< float16, in place

  bool is(uint32_t adapter) const { return static_cast<int64_t>(adapter) == index; }
};

std::vector<LowRank> read_low_rank(const FlatbufferTables& tables);

/// Checks what a linear refers to, and records how many numbers of each adapter are used.
/// \param rows that exist: of the weight; of a gated one, of its gate and of its up.
void check_low_rank(const std::vector<LowRank>& parts, size_t columns, size_t rows, bool gated,
                    Checker* checker);

/// The most floats of a row between the two products, over all adapters.
size_t shrunk_floats(const std::vector<LowRank>& parts);

}  // namespace thimble::cpu
