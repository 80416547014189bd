#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/activations.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// Outputs that share each weight that is loaded.
constexpr size_t kTogether = 4;

/// kOutputs windows from `first` on, of 16 columns or of the fewer that are left.
template <size_t kOutputs, bool kWhole, typename Activation>
void windows(const DepthwiseArgs& args, size_t first, size_t column, Activation activation) {
  const size_t left = args.columns - column;
  const auto taken = [&](const float* from) [[gnu::always_inline]] {
    return kWhole ? load(from) : load_some(from, left);
  };
  const float* const x = args.x + first * args.x_step + column;
  const F32x16 bias = args.bias == nullptr ? broadcast(0.0f) : taken(args.bias + column);
  F32x16 sums[kOutputs];
  unrolled<kOutputs>([&](auto i) [[gnu::always_inline]] { sums[i] = bias; });
  for (size_t tap = 0; tap < args.taps; ++tap) {
    const F32x16 weight = taken(args.weight + args.offsets[tap].weight + column);
    const float* const from = x + args.offsets[tap].x;
    unrolled<kOutputs>([&](auto i) [[gnu::always_inline]] {
      sums[i] = fused(taken(from + i * args.x_step), weight, sums[i]);
    });
  }
  float* const y = args.y + first * args.y_step + column;
  unrolled<kOutputs>([&](auto i) [[gnu::always_inline]] {
    const F32x16 result = activation(sums[i]);
    kWhole ? store(y + i * args.y_step, result) : store_some(y + i * args.y_step, result, left);
  });
}

/// All columns of some windows: numbers that lie beside each other are read one after the other.
template <size_t kOutputs, typename Activation>
void all_columns(const DepthwiseArgs& args, size_t first, Activation activation) {
  size_t column = 0;
  for (; column + kLanes <= args.columns; column += kLanes) {
    windows<kOutputs, true>(args, first, column, activation);
  }
  if (column < args.columns) windows<kOutputs, false>(args, first, column, activation);
}

template <typename Activation>
void all_windows(const DepthwiseArgs& args, Activation activation) {
  size_t first = 0;
  for (; first + kTogether <= args.windows; first += kTogether) {
    all_columns<kTogether>(args, first, activation);
  }
  for (; first < args.windows; ++first) all_columns<1>(args, first, activation);
}

}  // namespace

void depthwise(const DepthwiseArgs& args) {
  with_activation_if_any(args.activation, [&](auto activation) { all_windows(args, activation); });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
