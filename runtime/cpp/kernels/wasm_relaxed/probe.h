#pragma once

namespace thimble::kernels::wasm_relaxed {

/// Whether this engine's relaxed_madd rounds once, as fused_four() needs; the standard lets it
/// round twice.
bool madd_is_fused();

}  // namespace thimble::kernels::wasm_relaxed
