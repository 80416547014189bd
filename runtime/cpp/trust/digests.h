#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/status.h"

namespace thimble {

using Sha256 = std::array<uint8_t, 32>;
using PublicKey = std::array<uint8_t, 32>;  ///< of Ed25519, as RFC 8032 encodes it

/// Whether this build computes what follows; the error names the library that it lacks.
Status check_has_digests();

/// The SHA-256 of some bytes.
Result<Sha256> sha256(const uint8_t* data, size_t size);

/// Whether an Ed25519 signature of a message is that of the key.
bool is_signed_with(const PublicKey& key, std::string_view message, std::string_view signature);

}  // namespace thimble
