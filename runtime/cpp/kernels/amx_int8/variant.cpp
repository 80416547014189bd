#include "kernels/amx_int8/variant.h"

#include "kernels/amx_int8/matmul.h"
#include "kernels/select/variants.h"

#undef THIMBLE_VARIANT
#define THIMBLE_VARIANT avx512vnni  // the functions that are borrowed
#include "kernels/shared/table.h"

namespace thimble::kernels::amx_int8 {
namespace {

/// The same as avx512vnni except for products with many rows.
constexpr Variant with_tile_products() {
  Variant variant = avx512vnni::table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);
  variant.matmul[static_cast<int>(WeightFormat::kInt2TwoLevel)] = matmul_int2_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt3TwoLevel)] = matmul_int3_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt4TwoLevel)] = matmul_int4_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt5TwoLevel)] = matmul_int5_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt6TwoLevel)] = matmul_int6_two_level;
  variant.matmul[static_cast<int>(WeightFormat::kInt4)] = matmul_int4;
  variant.matmul[static_cast<int>(WeightFormat::kInt8)] = matmul_int8;
  variant.matmul[static_cast<int>(WeightFormat::kInt8Groups)] = matmul_int8_groups;
  return variant;
}

}  // namespace

constexpr Variant kVariant = with_tile_products();

}  // namespace thimble::kernels::amx_int8
