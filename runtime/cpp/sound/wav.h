#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"
#include "sound/pcm.h"

namespace thimble {

/// The sound of a WAV file.
struct Wav {
  Pcm pcm;                      ///< in place
  bool cut = false;             ///< its header promises more than there is
  uint64_t bytes = UINT64_MAX;  ///< of samples that it promises; UINT64_MAX: it does not know
};

/// Reads a WAV file (RIFF, RF64): integers of 8 to 32 bits, floats of 32 and 64, of any rate and up
/// to 64 channels. One that was cut off, or whose writer did not know the length, has what is
/// there.
/// \param bytes the complete file; the result reads them.
/// \param name for the error, which tells what is wrong and what is read.
Result<Wav> read_wav(const uint8_t* bytes, size_t size, const std::string& name);

}  // namespace thimble
