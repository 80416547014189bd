#pragma once

#include <cstddef>
#include <cstdint>

namespace thimble {

/// The CRC-32 of zlib and PNG (IEEE 802.3, reflected) of `size` bytes at `data`.
uint32_t crc32(const uint8_t* data, size_t size);

}  // namespace thimble
