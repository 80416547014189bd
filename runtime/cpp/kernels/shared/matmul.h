#pragma once

/// \file
/// Products of many rows, of variants that borrow all else from another.

#include "kernels/kernels.h"

namespace thimble::kernels::THIMBLE_VARIANT {

void matmul_int2_two_level(const LinearArgs& args);
void matmul_int3_two_level(const LinearArgs& args);
void matmul_int4_two_level(const LinearArgs& args);
void matmul_int5_two_level(const LinearArgs& args);
void matmul_int6_two_level(const LinearArgs& args);
void matmul_int4(const LinearArgs& args);
void matmul_int8(const LinearArgs& args);
void matmul_int8_groups(const LinearArgs& args);

/// The other variant with these products.
constexpr Variant with_products(Variant variant) {
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

}  // namespace thimble::kernels::THIMBLE_VARIANT
