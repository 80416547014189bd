#include "kernels/neon_i8mm/variant.h"

#include "kernels/select/variants.h"
#include "kernels/shared/table.h"

#undef THIMBLE_VARIANT
#define THIMBLE_VARIANT neon_dotprod  // the functions that are borrowed
#include "kernels/shared/table.h"

namespace thimble::kernels::neon_i8mm {
namespace {

/// The same as neon_dotprod except for products with many rows.
constexpr Variant with_own_matmul() {
  Variant variant = neon_dotprod::table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);
  const Variant own = table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);
  for (size_t format = 0; format < kFormats; ++format) variant.matmul[format] = own.matmul[format];
  return variant;
}

}  // namespace

constexpr Variant kVariant = with_own_matmul();

}  // namespace thimble::kernels::neon_i8mm
