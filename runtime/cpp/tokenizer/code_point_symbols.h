#pragma once

#include <cstdint>

#include "core/flatbuffer.h"
#include "core/status.h"

namespace thimble {

/// A symbol for each code point that has one, stored as blocks of 128 and read in place.
class CodePointSymbols {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  /// Fails when some block lies outside the symbols.
  static Result<CodePointSymbols> load(const FlatbufferTable& table) {
    CodePointSymbols map;
    map.blocks_ = table.vector<uint16_t>(0);
    map.symbols_ = table.vector<uint32_t>(1);
    if (map.blocks_.size() != 0x110000 / kBlockSize) {
      return Status::error("a map of characters lacks blocks");
    }
    for (size_t i = 0; i < map.blocks_.size(); ++i) {
      if ((map.blocks_[i] + size_t{1}) * kBlockSize > map.symbols_.size()) {
        return Status::error("a map of characters names a block it does not hold");
      }
    }
    return map;
  }

  /// The symbol of `point`, which must be below 0x110000.
  uint32_t operator[](uint32_t point) const {
    return symbols_[blocks_[point / kBlockSize] * kBlockSize + point % kBlockSize];
  }

 private:
  static constexpr size_t kBlockSize = 128;

  FlatbufferVector<uint16_t> blocks_;
  FlatbufferVector<uint32_t> symbols_;
};

}  // namespace thimble
