#pragma once

#include <string>

#include "trust/digests.h"

namespace thimble {

/// Reads an Ed25519 public key.
///
/// `key` is the path of a file, PEM as `openssl pkey -pubout` writes it or the key's 32 bytes, or
/// the text of the PEM itself. No error has any of what was read.
Result<PublicKey> read_public_key(const std::string& key);

/// What errors call a key: its path, or that it was given as text.
std::string name_of_key(const std::string& key);

}  // namespace thimble
