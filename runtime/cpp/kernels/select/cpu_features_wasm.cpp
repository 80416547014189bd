#include "kernels/select/cpu_features.h"

#if defined(THIMBLE_WASM_RELAXED)
#include "kernels/wasm_relaxed/probe.h"
#endif

namespace thimble::kernels {

// An engine does not load a module with instructions that it lacks.
uint32_t cpu_features() {
  uint32_t features = kWasmSimd;
#if defined(THIMBLE_WASM_RELAXED)
  if (wasm_relaxed::madd_is_fused()) features |= kWasmRelaxed;
  if (wasm_relaxed::dot_is_in_pairs()) features |= kWasmPairs;
#endif
  return features;
}

}  // namespace thimble::kernels
