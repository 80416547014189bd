#include "sound/live_sound.h"

#include <cstddef>

namespace thimble {

const Pcm& LiveSound::grown() {
  pcm_.frames = bytes_.size() / frame_size();
  pcm_.data = bytes_.data();
  return pcm_;
}

void LiveSound::append(const void* samples, uint64_t frames) {
  const auto* bytes = static_cast<const uint8_t*>(samples);
  bytes_.insert(bytes_.end(), bytes, bytes + frames * frame_size());
  sound_.grow(grown());
}

void LiveSound::forget(uint64_t seconds) {
  const uint64_t frames = seconds * static_cast<uint64_t>(pcm_.rate);
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(frames * frame_size()));
  forgotten_s_ += seconds;
  sound_.grow(grown());
}

}  // namespace thimble
