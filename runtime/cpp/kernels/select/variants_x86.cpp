#include "kernels/select/variants.h"

namespace thimble::kernels {

VariantList all_variants() {
  static const Variant* const kVariants[] = {
#if defined(THIMBLE_AMX_INT8)
      &amx_int8::kVariant,
#endif
#if defined(THIMBLE_AVX512VNNI)
      &avx512vnni::kVariant,
#endif
#if defined(THIMBLE_AVXVNNI)
      &avxvnni::kVariant,
#endif
      &avx2::kVariant, &scalar::kVariant};
  return {kVariants, sizeof kVariants / sizeof *kVariants};
}

}  // namespace thimble::kernels
