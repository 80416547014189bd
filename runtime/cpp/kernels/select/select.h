#pragma once

#include <string>

#include "kernels/kernels.h"

namespace thimble::kernels {

/// The environment variable that forces a variant by name.
constexpr const char* kVariantVariable = "THIMBLE_KERNELS";

/// A variant, or the sentence that says why there is none.
struct Selection {
  const Variant* variant;  ///< null after an error
  std::string error;
};

/// The best variant whose requirements `features` meet.
/// \param forced null or empty, or the name of the one to use: refused when there is none of that
///     name, or when it needs more than `features`.
Selection select_variant(const char* forced, uint32_t features);

/// The variant for this CPU and the environment variable.
Selection select_variant();

}  // namespace thimble::kernels
