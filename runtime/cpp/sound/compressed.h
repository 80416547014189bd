#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/status.h"

namespace thimble {

enum class Compression { kNone, kFlac, kMp3 };

/// What a file is, by its first bytes.
Compression compression_of(const uint8_t* bytes, size_t size);

/// Decodes a file, part by part.
class SoundDecoder {
 public:
  virtual ~SoundDecoder() = default;
  virtual int32_t channels() const = 0;
  virtual int32_t rate() const = 0;
  /// As the file says; 0: it does not.
  virtual uint64_t frames() const = 0;
  /// Returns how many frames were written, [count][channels()]; fewer at the end.
  virtual size_t read(size_t count, int16_t* samples) = 0;
};

/// Null if the bytes are damaged.
/// \param bytes must outlive it.
std::unique_ptr<SoundDecoder> open_compressed(Compression kind, const uint8_t* bytes, size_t size);

/// Whether the build can.
bool decodes_compressed();

}  // namespace thimble
