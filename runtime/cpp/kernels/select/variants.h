#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace thimble::kernels {

/// Every variant of this architecture, best first; the last is scalar, which any CPU runs.
struct VariantList {
  const Variant* const* variants;
  size_t count;

  const Variant* const* begin() const { return variants; }
  const Variant* const* end() const { return variants + count; }
};
VariantList all_variants();

namespace scalar {
extern const Variant kVariant;
}
namespace avx2 {
extern const Variant kVariant;
}
namespace avxvnni {
extern const Variant kVariant;
}
namespace avx512vnni {
extern const Variant kVariant;
}
namespace amx_int8 {
extern const Variant kVariant;
}
namespace neon_dotprod {
extern const Variant kVariant;
}
namespace neon_i8mm {
extern const Variant kVariant;
}
namespace wasm_simd {
extern const Variant kVariant;
}
namespace wasm_relaxed {
extern const Variant kVariant;
}
namespace wasm_pairs {
extern const Variant kVariant;
}

}  // namespace thimble::kernels
