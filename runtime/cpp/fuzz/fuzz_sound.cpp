/// Files of sound, and their samples at a model's rate.

#include <algorithm>
#include <vector>

#include "fuzz/input.h"
#include "sound/resampled_sound.h"
#include "sound/sound_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  constexpr double kMostSeconds = 60;
  const Result<SoundFile> file = read_sound(data, size, "sound", kMostSeconds);
  require(check_sound(data, size, "sound").ok() || !file.ok());
  if (!file.ok() || file->pcm.frames == 0) return 0;
  const ResampledSound sound(file->pcm, 8000);
  std::vector<float> samples(std::min<size_t>(sound.size(), 100));
  sound.read(0, samples.size(), samples.data());
  sound.read(static_cast<int64_t>(sound.size() - samples.size()), samples.size(), samples.data());
  return 0;
}
