#pragma once

namespace thimble::kernels::wasm_relaxed {

/// Whether this engine's relaxed_madd rounds once, as fused_four() needs; the standard lets it
/// round twice.
bool madd_is_fused();

/// Whether this engine computes the relaxed dot product of four from those of pairs in 16 bits, as
/// on x86 without AVX-VNNI: their saturation shows in what the standard leaves open.
bool dot_is_in_pairs();

}  // namespace thimble::kernels::wasm_relaxed
