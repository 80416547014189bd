#include "kernels/avxvnni/variant.h"

#include "kernels/select/variants.h"
#include "kernels/shared/table.h"

#undef THIMBLE_VARIANT
#define THIMBLE_VARIANT avx2  // the functions that are borrowed
#include "kernels/shared/table.h"

namespace thimble::kernels::avxvnni {
namespace {

/// The same as avx2 except for products of bytes.
constexpr Variant with_own_products() {
  Variant variant = avx2::table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);
  const Variant own = table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);
  for (size_t format = 0; format < kFormats; ++format) {
    variant.matvec[format] = own.matvec[format];
    variant.matmul[format] = own.matmul[format];
  }
  variant.attention = own.attention;
  variant.attention_split = own.attention_split;
  return variant;
}

}  // namespace

constexpr Variant kVariant = with_own_products();

}  // namespace thimble::kernels::avxvnni
