#pragma once

#include "delegate/ops/window.h"

namespace thimble::cpu {

struct OpContext;

/// Where the numbers of windows over the rows of a picture lie, which a convolution then multiplies
/// without a copy.
class WindowParts {
 public:
  /// \param input the slot of the picture, with a row for each of its numbers.
  /// \param memory bytes() of it, aligned to floats' lines.
  WindowParts(const Window& window, uint32_t input, const OpContext& context, uint8_t* memory);

  /// \param rows the most of a call of point().
  static size_t bytes(const Window& window, size_t columns, size_t rows);

  /// Finds the parts of `count` windows from `first` of the chunk on; zeros are outside of the
  /// picture.
  /// \return [count][window.taps()], valid until the next call.
  const float* const* point(size_t first, size_t count) const;

 private:
  const Window& window_;
  const uint32_t input_;
  const OpContext& context_;
  float* const zeros_;  ///< of a row
  const float** const parts_;
};

}  // namespace thimble::cpu
