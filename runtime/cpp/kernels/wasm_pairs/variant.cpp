#include "kernels/wasm_pairs/variant.h"

#include "kernels/select/variants.h"
#include "kernels/wasm_pairs/linear.h"

#undef THIMBLE_VARIANT
#define THIMBLE_VARIANT wasm_relaxed  // the functions that are borrowed
#include "kernels/shared/table.h"

namespace thimble::kernels::wasm_pairs {
namespace {

/// The same as wasm_relaxed except for products with codes.
constexpr Variant with_sums_of_pairs() {
  Variant variant = wasm_relaxed::table(THIMBLE_VARIANT_NAME, kRequired, kTile, kFewRows);
  const auto use = [&](WeightFormat format, LinearFunction matvec, LinearFunction matmul) {
    variant.matvec[static_cast<int>(format)] = matvec;
    variant.matmul[static_cast<int>(format)] = matmul;
  };
  use(WeightFormat::kInt2TwoLevel, matvec_int2_two_level, matmul_int2_two_level);
  use(WeightFormat::kInt3TwoLevel, matvec_int3_two_level, matmul_int3_two_level);
  use(WeightFormat::kInt4TwoLevel, matvec_int4_two_level, matmul_int4_two_level);
  use(WeightFormat::kInt5TwoLevel, matvec_int5_two_level, matmul_int5_two_level);
  use(WeightFormat::kInt6TwoLevel, matvec_int6_two_level, matmul_int6_two_level);
  use(WeightFormat::kInt4, matvec_int4, matmul_int4);
  return variant;
}

}  // namespace

constexpr Variant kVariant = with_sums_of_pairs();

}  // namespace thimble::kernels::wasm_pairs
