#include "kernels/amx_int8/variant.h"

#include "kernels/amx_int8/matmul.h"
#include "kernels/select/variants.h"

namespace thimble::kernels::amx_int8 {
namespace {

/// The same as avx512vnni except for products with many rows.
Variant with_tile_products() {
  Variant variant = avx512vnni::kVariant;
  variant.name = THIMBLE_VARIANT_NAME;
  variant.required = kRequired;
  variant.tile = kTile;
  variant.few_rows = kFewRows;
  variant.matmul[static_cast<int>(WeightFormat::kInt4TwoLevel)] = matmul_int4_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt5TwoLevel)] = matmul_int5_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt6TwoLevel)] = matmul_int6_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt4)] = matmul_int4;
  variant.matmul[static_cast<int>(WeightFormat::kInt8)] = matmul_int8;
  variant.matmul[static_cast<int>(WeightFormat::kInt8Groups)] = matmul_int8_groups;
  return variant;
}

}  // namespace

const Variant kVariant = with_tile_products();

}  // namespace thimble::kernels::amx_int8
