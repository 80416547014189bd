#include "kernels/variants.h"

namespace thimble::kernels {

VariantList all_variants() {
  static const Variant* const kVariants[] = {&avx512vnni::kVariant, &avx2::kVariant,
                                             &scalar::kVariant};
  return {kVariants, sizeof kVariants / sizeof *kVariants};
}

}  // namespace thimble::kernels
