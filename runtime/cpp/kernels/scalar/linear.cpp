#include "kernels/scalar/variant.h"
#include "kernels/shared/codes.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"

namespace thimble::kernels::scalar {
namespace {

int8_t value_at(const QuantizedRows& x, size_t m, size_t k) {
  return x.values[quantized_offset(m, k, x.columns, x.tile)];
}

/// Values [columns][16] of a block in codes.
void unpack_codes(const uint8_t* values, size_t bits, size_t columns, int8_t* out) {
  for (size_t k = 0; k < columns; ++k)
    for (size_t lane = 0; lane < kBlockRows; ++lane)
      out[k * kBlockRows + lane] = static_cast<int8_t>(coded_value(values, bits, lane, k));
}

/// int8 values [columns][16] of a block.
void unpack_bytes(const uint8_t* values, size_t columns, int8_t* out) {
  for (size_t k = 0; k < columns; ++k)
    for (size_t lane = 0; lane < kBlockRows; ++lane)
      out[k * kBlockRows + lane] =
          static_cast<int8_t>(values[k / 4 * kLineBytes + lane * 4 + k % 4]);
}

/// sum over k in [first, last) of q * weights [columns][16].
I32x16 dot(const QuantizedRows& x, size_t m, const int8_t* weights, size_t first, size_t last) {
  I32x16 total = broadcast(0);
  for (size_t k = first; k < last; ++k) {
    const int32_t q = value_at(x, m, k);
    for (size_t lane = 0; lane < kBlockRows; ++lane)
      total.lane[lane] += q * weights[k * kBlockRows + lane];
  }
  return total;
}

template <typename Unpack>
void linear(const LinearArgs& args, Unpack unpack) {
  const BlockLayout layout = args.weight.layout();
  int8_t* weights = reinterpret_cast<int8_t*>(args.scratch);
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    unpack(packed, layout, weights);
    for (size_t m = 0; m < args.x.rows; ++m) {
      const auto [first, last] = columns_of(args);
      store_totals(args, m, block, dot(args.x, m, weights, first, last), packed);
    }
  }
}

/// Of a format with a float16 scale for each group.
template <typename Unpack>
void linear_in_groups(const LinearArgs& args, Unpack unpack) {
  const size_t columns = args.weight.columns, group_size = args.weight.group_size;
  const BlockLayout layout = args.weight.layout();
  int8_t* weights = reinterpret_cast<int8_t*>(args.scratch);
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    unpack(packed + layout.values, weights);
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
    for (size_t m = 0; m < args.x.rows; ++m) {
      F32x16 total = broadcast(0.0f);
      for (size_t k = 0; k < columns; k += group_size) {
        const size_t group = k / group_size;
        const F32x16 sum = to_float(dot(args.x, m, weights, k, k + group_size));
        const F32x16 of_input = broadcast(args.x.group_scale(m, group));
        total = fused(sum, mul(load_half(scales + group * kBlockRows), of_input), total);
      }
      store_totals(args, m, block, total, packed);
    }
  }
}

/// Of a format with two levels of scales.
void linear_of_two_levels(const LinearArgs& args) {
  const size_t columns = args.weight.columns, group_size = args.weight.group_size;
  linear(args, [&](const uint8_t* packed, const BlockLayout& layout, int8_t* weights) {
    unpack_codes(packed + layout.values, bits_of(args.weight.format), columns, weights);
    for (size_t k = 0; k < columns; ++k) {
      const size_t group = k / group_size;
      const uint8_t* multiples = packed + layout.scales + group / 8 * kLineBytes + group % 8 / 2;
      for (size_t lane = 0; lane < kBlockRows; ++lane)
        weights[k * kBlockRows + lane] *= multiples[lane * 4] >> (group % 2 * 4) & 15;
    }
  });
}

}  // namespace

void matvec_int2_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matvec_int3_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matvec_int4_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matvec_int5_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matvec_int6_two_level(const LinearArgs& args) { linear_of_two_levels(args); }

void matvec_int4(const LinearArgs& args) {
  linear_in_groups(args, [&](const uint8_t* values, int8_t* weights) {
    unpack_codes(values, 4, args.weight.columns, weights);
  });
}

void matvec_int8(const LinearArgs& args) {
  linear(args, [&](const uint8_t* packed, const BlockLayout& layout, int8_t* weights) {
    unpack_bytes(packed + layout.values, args.weight.columns, weights);
  });
}

void matvec_int8_groups(const LinearArgs& args) {
  linear_in_groups(args, [&](const uint8_t* values, int8_t* weights) {
    unpack_bytes(values, args.weight.columns, weights);
  });
}

void matmul_int2_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matmul_int3_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matmul_int4_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matmul_int5_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matmul_int6_two_level(const LinearArgs& args) { linear_of_two_levels(args); }
void matmul_int4(const LinearArgs& args) { matvec_int4(args); }
void matmul_int8(const LinearArgs& args) { matvec_int8(args); }
void matmul_int8_groups(const LinearArgs& args) { matvec_int8_groups(args); }

}  // namespace thimble::kernels::scalar
