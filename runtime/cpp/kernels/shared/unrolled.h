#pragma once

#include <cstddef>
#include <utility>

namespace thimble::kernels::THIMBLE_VARIANT {

template <size_t... kIndex, typename Operation>
[[gnu::always_inline]] inline void unrolled(std::index_sequence<kIndex...>,
                                            [[maybe_unused]] Operation operation) {
  (operation(std::integral_constant<size_t, kIndex>{}), ...);
}

/// Calls `operation` with the integral constants 0 .. kCount - 1: an unrolled loop, so that the
/// arrays it indexes become registers.
template <size_t kCount, typename Operation>
[[gnu::always_inline]] inline void unrolled(Operation operation) {
  unrolled(std::make_index_sequence<kCount>{}, operation);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
