#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/flatbuffer.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

class Checker;

/// How a window moves along one side of a picture: the table `Side` of program.fbs.
struct Side {
  uint32_t size;        ///< of the picture
  uint32_t kernel;      ///< numbers that the window sees
  uint32_t stride;      ///< between two windows
  uint32_t padding;     ///< zeros before the picture's first number
  uint32_t dilation;    ///< between two numbers of a window
  uint32_t output;      ///< windows
  uint32_t behind = 0;  ///< zeros behind the picture's last number

  static Side read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  /// Moves along so many numbers instead; returns whether there is a window.
  bool shorten(size_t numbers);

  /// The numbers of window `at` that lie in the picture.
  Range inside(size_t at) const {
    const size_t start = at * stride;
    const size_t first = start >= padding ? 0 : taps_up_to(padding - start);
    const size_t end = size_t{size} + padding;
    const size_t last = start >= end ? 0 : taps_up_to(end - start);
    return {std::min<size_t>(first, kernel), std::min<size_t>(last, kernel)};
  }
  /// Where number `tap` of window `at`, which is inside, is in the picture.
  size_t place(size_t at, size_t tap) const { return at * stride + tap * dilation - padding; }

 private:
  size_t taps_up_to(size_t distance) const {
    return dilation == 1 ? distance : (distance + dilation - 1) / dilation;
  }
};

/// A window over both sides of a picture; a sound is a picture of one row.
struct Window {
  Side vertical;
  Side horizontal;

  /// The fields from `field` on.
  static Window read(const FlatbufferTable& table, size_t field) {
    return {Side::read(table.table(field)), Side::read(table.table(field + 1))};
  }
  /// Checks both sides, of an operator that writes a row of `output` for each window.
  void check(uint32_t output, Checker* checker) const;

  /// Moves over so many numbers instead: of a sound, or of fewer lines of a picture.
  bool shorten(size_t numbers);

  uint64_t size() const { return uint64_t{vertical.size} * horizontal.size; }
  uint64_t taps() const { return uint64_t{vertical.kernel} * horizontal.kernel; }
  uint64_t outputs() const { return uint64_t{vertical.output} * horizontal.output; }
};

}  // namespace thimble::cpu
