// Sound as models read it, for tests: float32 on standard output.
//   sound_cli samples FILE.wav RATE       the samples of one channel at a rate
//   sound_cli features FILE.wav BLOB      log-mel features, frames of a thousand at a time
// An error's sentence goes to standard error.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "sound/log_mel.h"
#include "sound/resampled_sound.h"
#include "sound/sound_file.h"
#include "tests/binary_requests.h"

namespace thimble {
namespace {

constexpr size_t kTogether = 1001;

int fail(const std::string& sentence) {
  std::fputs(sentence.c_str(), stderr);
  return 1;
}

void write(const std::vector<float>& numbers) {
  std::fwrite(numbers.data(), sizeof(float), numbers.size(), stdout);
}

int write_samples(const Pcm& pcm, int32_t rate) {
  const ResampledSound sound(pcm, rate);
  std::vector<float> samples(sound.size());
  for (size_t first = 0; first < samples.size(); first += kTogether) {
    const size_t count = std::min(kTogether, samples.size() - first);
    sound.read(static_cast<int64_t>(first), count, &samples[first]);
  }
  write(samples);
  return 0;
}

int write_features(const Pcm& pcm, const std::vector<uint8_t>& blob) {
  Result<LogMelSettings> settings = LogMelSettings::load(blob.data(), blob.size());
  if (!settings.ok()) return fail(settings.message());
  const LogMel log_mel(std::move(*settings));
  const ResampledSound sound(pcm, log_mel.settings().sampling_rate);
  const size_t frames = log_mel.frames(sound), n_mels = log_mel.settings().n_mels;
  std::vector<float> features(n_mels * frames);
  for (size_t first = 0; first < frames; first += kTogether) {
    const size_t count = std::min(kTogether, frames - first);
    std::vector<float> part(n_mels * count);
    log_mel.compute(sound, first, count, part.data());
    for (size_t mel = 0; mel < n_mels; ++mel) {
      std::copy_n(&part[mel * count], count, &features[mel * frames + first]);
    }
  }
  if (log_mel.settings().extractor == Extractor::kParakeet) {
    for (size_t mel = 0; mel < n_mels; ++mel) LogMel::standardize(frames, &features[mel * frames]);
  } else {
    const float largest = *std::max_element(features.begin(), features.end());
    LogMel::normalize(largest, features.size(), features.data());
  }
  write(features);
  return 0;
}

int run(int argc, char** argv) {
  if (argc != 4) return fail("usage: sound_cli samples|features FILE.wav RATE|BLOB\n");
  const std::vector<uint8_t> bytes = read_file(argv[2]);
  const std::string path = argv[2], name = path.substr(path.rfind('/') + 1);
  const Result<SoundFile> sound =
      read_sound(bytes.data(), bytes.size(), name, std::numeric_limits<double>::infinity());
  if (!sound.ok()) return fail(sound.message());
  if (std::string(argv[1]) == "samples") return write_samples(sound->pcm, std::atoi(argv[3]));
  return write_features(sound->pcm, read_file(argv[3]));
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
