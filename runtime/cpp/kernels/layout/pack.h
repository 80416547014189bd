#pragma once

/// \file
/// The reference packers: plain loops that define the bytes of layout.h.

#include "kernels/layout/layout.h"

namespace thimble::kernels {

/// Packs a weight of a format with two levels of scales.
/// \param values int8 [rows][columns], as the format has them.
/// \param multiples uint8 [rows][groups], the same; groups = ceil(columns / group_size).
/// \param row_scales float [rows].
/// \param out as many bytes as the PackedWeight of this shape has, aligned to 4.
void pack_two_level(WeightFormat format, const int8_t* values, const uint8_t* multiples,
                    const float* row_scales, size_t rows, size_t columns, size_t group_size,
                    uint8_t* out);

/// Packs an int4 weight with float16 scales, given as their bits [rows][groups].
void pack_int4(const int8_t* values, const uint16_t* scales, size_t rows, size_t columns,
               size_t group_size, uint8_t* out);

/// Packs an int8 weight with float16 scales, given as their bits [rows][groups].
void pack_int8_groups(const int8_t* values, const uint16_t* scales, size_t rows, size_t columns,
                      size_t group_size, uint8_t* out);

/// Packs an int8 weight with a scale per row.
void pack_int8(const int8_t* values, const float* row_scales, size_t rows, size_t columns,
               uint8_t* out);

/// Packs a float32 weight [rows][columns].
void pack_float32(const float* values, size_t rows, size_t columns, uint8_t* out);

}  // namespace thimble::kernels
