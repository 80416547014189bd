#pragma once

#include <cstdint>

#include "core/flatbuffer.h"
#include "core/status.h"

namespace thimble {

/// A byte for each code point, stored in blocks of 128 and read in place.
class CodePointMap {
 public:
  CodePointMap() = default;

  /// Fails if a block is outside `values`.
  static Result<CodePointMap> load(FlatbufferVector<uint16_t> blocks,
                                   FlatbufferVector<uint8_t> values) {
    constexpr size_t kBlocks = 0x110000 / kBlockSize;
    if (blocks.size() != kBlocks) return Status::error("a map of code points lacks blocks");
    for (size_t i = 0; i < kBlocks; ++i) {
      if ((blocks[i] + size_t{1}) * kBlockSize > values.size()) {
        return Status::error("a map of code points refers to a missing block");
      }
    }
    CodePointMap map;
    map.blocks_ = blocks;
    map.values_ = values.bytes();
    map.ascii_ = values.bytes() + blocks[0] * kBlockSize;
    return map;
  }

  /// The byte of `point`, which must be below 0x110000.
  uint8_t operator[](uint32_t point) const {
    if (point < kBlockSize) return ascii_[point];
    return values_[blocks_[point / kBlockSize] * kBlockSize + point % kBlockSize];
  }

 private:
  static constexpr size_t kBlockSize = 128;

  FlatbufferVector<uint16_t> blocks_;
  const uint8_t* values_ = nullptr;
  const uint8_t* ascii_ = nullptr;
};

}  // namespace thimble
