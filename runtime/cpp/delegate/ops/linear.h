#pragma once

#include <vector>

#include "delegate/ops/kind.h"
#include "delegate/ops/low_rank.h"
#include "delegate/ops/window.h"

namespace thimble::cpu {

/// A linear layer: norm and quantization of its input, the product, and its epilogue. Or a dense
/// convolution in float32: a linear layer of the windows over a picture.
struct LinearOp {
  uint32_t input;
  uint32_t output;
  uint32_t weight;
  Floats bias;
  Floats norm;
  float norm_eps;
  bool gated;
  kernels::Function activation;  ///< of the gate; or of y, if it is one
  bool accumulate;
  bool last_row;
  bool prepared;
  std::vector<LowRank> low_rank = {};  ///< of each adapter, of each of the joined matrices
  uint32_t rotated = 0;  ///< size of the blocks in which the input is rotated; 0: it is not
  Window window = {};    ///< over the input; without numbers: each row is multiplied by itself

  /// Whether it multiplies windows.
  bool convolves() const { return window.vertical.kernel > 0; }

  /// Whether the output is an activation of the product, without a gate.
  bool activates() const { return !gated && activation != kernels::Function::kAdd; }

  static constexpr const char* kName = "Linear";
  static constexpr bool kPerSegment = false;
  static LinearOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) {
    if (!convolves()) return heights->by_row(input, output);
    return window.shorten(heights->of(input)) &&
           heights->set(output, static_cast<size_t>(window.outputs()));
  }
  WorkspaceNeeds needs(const Program& program, const kernels::Variant& kernels,
                       size_t threads) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

/// The number of parts into which the columns of a weight are cut for a matrix x vector product, so
/// that threads which would be idle for lack of blocks have work: the number with the shortest
/// longest share. 1: the weight is not cut, because it has enough blocks, a format with
/// floating-point sums, or too few columns.
size_t column_parts(const kernels::PackedWeight& weight, size_t threads);

}  // namespace thimble::cpu
