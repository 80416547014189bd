#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace thimble {

/// Checks that a file's bytes are those that the owner of a key signed, by the file beside it whose
/// name ends in `.sig` (exporter/schemas/signed_file.fbs).
///
/// `data` and `size` are the file's, in memory: what is checked here is what runs. `key` is as for
/// read_public_key(). The error names the range of the file that is another.
Status check_signature(const std::string& path, const uint8_t* data, size_t size,
                       const std::string& key);

}  // namespace thimble
