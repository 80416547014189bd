#pragma once

#include <string>

#include "kernels/kernels.h"

namespace thimble::kernels {

/// The environment variable that forces a variant by name.
constexpr const char* kVariantVariable = "THIMBLE_KERNELS";

/// A variant, or the sentence that tells why there is none.
struct Selection {
  const Variant* variant;  ///< null if there is an error
  std::string error;
};

/// The best variant whose requirements `features` meet.
/// \param forced null or empty, or the name of the variant to use. It is refused if no variant has
///     that name, or if it needs more than `features`.
Selection select_variant(const char* forced, uint32_t features);

/// Returns the variant for this CPU and the environment variable.
Selection select_variant();

}  // namespace thimble::kernels
