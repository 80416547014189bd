#include "sound/compressed.h"

#include <cstring>

namespace thimble {

// An MP3 file begins with a tag, or with a frame: eleven ones, a version and layer III.
Compression compression_of(const uint8_t* bytes, size_t size) {
  if (size < 4) return Compression::kNone;
  if (std::memcmp(bytes, "fLaC", 4) == 0) return Compression::kFlac;
  if (std::memcmp(bytes, "ID3", 3) == 0) return Compression::kMp3;
  const bool is_frame = bytes[0] == 0xFF && (bytes[1] & 0xE6) == 0xE2 && (bytes[1] & 0x18) != 0x08;
  return is_frame ? Compression::kMp3 : Compression::kNone;
}

#ifndef THIMBLE_DR_LIBS

bool decodes_compressed() { return false; }

std::unique_ptr<SoundDecoder> open_compressed(Compression, const uint8_t*, size_t) {
  return nullptr;
}

#endif

}  // namespace thimble
