#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "sound/pcm.h"

namespace thimble {

/// The sound of a file.
struct SoundFile {
  Pcm pcm;
  bool cut = false;                               ///< its header promises more than there is
  std::shared_ptr<std::vector<int16_t>> decoded;  ///< what `pcm` reads; null: the file in place
};

/// Reads a file: WAV in place (wav.h), FLAC and MP3 decoded into 16 bits of one channel, where the
/// build has dr_libs.
/// \param bytes the complete file; the result may read them.
/// \param name for the error, which tells what is wrong and what is read.
/// \param most_seconds what is longer is refused before it is decoded.
Result<SoundFile> read_sound(const uint8_t* bytes, size_t size, const std::string& name,
                             double most_seconds);

/// Fails as read_sound() does if what begins a file is wrong; decodes nothing.
Status check_sound(const uint8_t* bytes, size_t size, const std::string& name);

}  // namespace thimble
