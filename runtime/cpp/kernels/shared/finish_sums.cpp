#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"

namespace thimble::kernels::THIMBLE_VARIANT {

void finish_sums(const LinearArgs& args, size_t parts) {
  const size_t block_bytes = args.weight.layout().bytes;
  const size_t stride = args.weight.blocks() * kBlockRows;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * block_bytes;
    for (size_t m = 0; m < args.x.rows; ++m) {
      const int32_t* sums = args.sums + m * stride + block * kBlockRows;
      I32x16 total = load(sums);
      for (size_t part = 1; part < parts; ++part)
        total = add(total, load(sums + part * args.x.rows * stride));
      store_outputs(args, m, block, scaled(total, args.x.params[m], packed));
    }
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
