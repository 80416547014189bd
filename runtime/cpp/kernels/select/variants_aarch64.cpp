#include "kernels/select/variants.h"

namespace thimble::kernels {

VariantList all_variants() {
  static const Variant* const kVariants[] = {&neon_i8mm::kVariant, &neon_dotprod::kVariant,
                                             &scalar::kVariant};
  return {kVariants, sizeof kVariants / sizeof *kVariants};
}

}  // namespace thimble::kernels
