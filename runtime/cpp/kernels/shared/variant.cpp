#include THIMBLE_VARIANT_HEADER
#include "kernels/select/variants.h"
#include "kernels/shared/table.h"

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr Variant kVariant = table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);

}  // namespace thimble::kernels::THIMBLE_VARIANT
