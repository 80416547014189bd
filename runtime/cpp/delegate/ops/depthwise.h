#pragma once

#include <vector>

#include "delegate/ops/kind.h"
#include "delegate/ops/window.h"

namespace thimble::cpu {

/// A convolution of each channel by itself.
struct DepthwiseOp {
  uint32_t input;
  uint32_t output;
  Floats weight;
  Floats bias;
  kernels::Function activation;  ///< kAdd: none
  Window window;

  static constexpr const char* kName = "Depthwise";
  static constexpr bool kPerSegment = false;
  static DepthwiseOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) {
    return window.shorten(heights->of(input)) &&
           heights->set(output, static_cast<size_t>(window.outputs()));
  }
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;

 private:
  /// Windows `across` of line `y`, which have the same numbers inside the picture.
  void run_windows(size_t sample, size_t y, Range across, OpContext& context) const;
};

}  // namespace thimble::cpu
