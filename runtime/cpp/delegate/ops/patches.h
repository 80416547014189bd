#pragma once

#include "delegate/ops/kind.h"
#include "delegate/ops/window.h"

namespace thimble::cpu {

/// What a convolution multiplies by its weight, of each of its outputs.
struct PatchesOp {
  uint32_t input;
  uint32_t output;
  bool planar;
  Window window;

  static constexpr const char* kName = "Patches";
  static constexpr bool kPerSegment = false;
  static PatchesOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) {
    return !planar && window.shorten(heights->of(input)) &&
           heights->set(output, static_cast<size_t>(window.outputs()));
  }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;

 private:
  /// One patch of a sample.
  void copy_planar(size_t sample, size_t y, size_t x, float* to, OpContext& context) const;
  void copy_rows(size_t sample, size_t y, size_t x, float* to, OpContext& context) const;
};

}  // namespace thimble::cpu
