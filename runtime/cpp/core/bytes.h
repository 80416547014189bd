#pragma once

#include <cstdint>
#include <string_view>

namespace thimble {

/// The bytes of a blob.
inline const uint8_t* bytes_of(std::string_view blob) {
  return reinterpret_cast<const uint8_t*>(blob.data());
}

}  // namespace thimble
