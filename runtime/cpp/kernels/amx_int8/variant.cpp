#include "kernels/amx_int8/variant.h"

#include "kernels/select/variants.h"
#include "kernels/shared/matmul.h"

#undef THIMBLE_VARIANT
#define THIMBLE_VARIANT avx512vnni  // the functions that are borrowed
#include "kernels/shared/table.h"

namespace thimble::kernels::amx_int8 {

constexpr Variant kVariant =
    with_products(avx512vnni::table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows));

}  // namespace thimble::kernels::amx_int8
