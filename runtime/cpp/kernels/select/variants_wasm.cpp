#include "kernels/select/variants.h"

namespace thimble::kernels {

VariantList all_variants() {
  static const Variant* const kVariants[] = {
#if defined(THIMBLE_WASM_RELAXED)
      &wasm_pairs::kVariant, &wasm_relaxed::kVariant,
#endif
      &wasm_simd::kVariant, &scalar::kVariant};
  return {kVariants, sizeof kVariants / sizeof *kVariants};
}

}  // namespace thimble::kernels
