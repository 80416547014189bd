#include "kernels/neon_i8mm/variant.h"

#include "kernels/select/variants.h"
#include "kernels/shared/matmul.h"

#undef THIMBLE_VARIANT
#define THIMBLE_VARIANT neon_dotprod  // the functions that are borrowed
#include "kernels/shared/table.h"

namespace thimble::kernels::neon_i8mm {

constexpr Variant kVariant =
    with_products(neon_dotprod::table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows));

}  // namespace thimble::kernels::neon_i8mm
