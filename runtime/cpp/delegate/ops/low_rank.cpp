#include "delegate/ops/low_rank.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "delegate/ops/checker.h"

namespace thimble::cpu {
namespace {

using kernels::kBlockRows;

}  // namespace

std::vector<LowRank> read_low_rank(const FlatbufferTables& tables) {
  std::vector<LowRank> parts;
  for (size_t i = 0; i < tables.size(); ++i) {
    const FlatbufferTable table = tables[i];
    parts.push_back({table.scalar<uint32_t>(0), table.scalar<uint32_t>(1),
                     table.scalar<uint32_t>(2), table.scalar<uint32_t>(3),
                     table.scalar<uint64_t>(4), table.scalar<uint64_t>(5), table.scalar<float>(6)});
  }
  return parts;
}

void check_low_rank(const std::vector<LowRank>& parts, size_t columns, size_t rows, bool gated,
                    Checker* checker) {
  for (const LowRank& part : parts) {
    const bool fits =
        gated ? part.first_row == 0 || part.first_row == kBlockRows : part.first_row <= rows;
    const size_t most = gated ? rows : rows - std::min<size_t>(rows, part.first_row);
    checker->check(fits && part.rows >= 1 && part.rows <= most,
                   "adds to " + std::to_string(part.rows) + " rows from " +
                       std::to_string(part.first_row) + " on of " + std::to_string(rows));
    checker->check(std::isfinite(part.scale), "has a scale that is not a number");
    if (!checker->has_adapter(part.adapter, part.rank)) return;
    checker->takes_halves(part.adapter, part.a, uint64_t{part.rank} * columns);
    checker->takes_halves(part.adapter, part.b,
                          uint64_t{part.rank} * kernels::round_up(part.rows, kBlockRows));
  }
}

size_t shrunk_floats(const std::vector<LowRank>& parts) {
  std::map<uint32_t, size_t> widths;
  size_t most = 0;
  for (const LowRank& part : parts) most = std::max(most, widths[part.adapter] += part.rank);
  return most;
}

}  // namespace thimble::cpu
