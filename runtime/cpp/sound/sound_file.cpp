#include "sound/sound_file.h"

#include <utility>

#include "sound/compressed.h"
#include "sound/wav.h"

namespace thimble {
namespace {

constexpr size_t kTogether = 1 << 14;                // frames that are decoded at once
constexpr uint64_t kMostFrames = uint64_t{1} << 29;  // decoded: a GiB

Status too_long(const std::string& name, double most_seconds) {
  return Status::error(name + " has more than " +
                       std::to_string(static_cast<long long>(most_seconds)) +
                       " seconds of sound, but must have at most that: give it in parts");
}

/// Opens a compressed file, and checks what it says of its sound.
Result<std::unique_ptr<SoundDecoder>> open_decoder(Compression kind, const uint8_t* bytes,
                                                   size_t size, const std::string& name) {
  const std::string what = kind == Compression::kFlac ? "a FLAC file" : "an MP3 file";
  if (!decodes_compressed()) {
    return Status::error(name + " is " + what +
                         ", which this build cannot read, since it lacks dr_libs: convert it to a "
                         "WAV file");
  }
  std::unique_ptr<SoundDecoder> decoder = open_compressed(kind, bytes, size);
  if (decoder == nullptr) {
    return Status::error(name + " is a damaged " + what.substr(what.find(' ') + 1) +
                         ": write it again");
  }
  const int32_t channels = decoder->channels(), rate = decoder->rate();
  if (channels < 1 || channels > kMostChannels || rate < 1 || rate > kMostRate) {
    return Status::error(name + " is damaged: it has " + std::to_string(channels) +
                         " channels of " + std::to_string(rate) +
                         " samples per second: write it again");
  }
  return decoder;
}

/// Mixes a decoder's channels into one.
Result<SoundFile> decode(SoundDecoder& decoder, const std::string& name, double most_seconds) {
  const int32_t channels = decoder.channels();
  const auto is_too_long = [&](uint64_t frames) {
    return static_cast<double>(frames) > most_seconds * decoder.rate();
  };
  if (is_too_long(decoder.frames())) return too_long(name, most_seconds);
  SoundFile file;
  file.decoded = std::make_shared<std::vector<int16_t>>();
  std::vector<int16_t>& samples = *file.decoded;
  std::vector<int16_t> part(kTogether * static_cast<size_t>(channels));
  while (const size_t count = decoder.read(kTogether, part.data())) {
    for (size_t i = 0; i < count; ++i) {
      int32_t sum = 0;
      for (int32_t k = 0; k < channels; ++k) sum += part[i * static_cast<size_t>(channels) + k];
      samples.push_back(static_cast<int16_t>(sum / channels));
    }
    if (is_too_long(samples.size())) return too_long(name, most_seconds);
    if (samples.size() > kMostFrames) {
      return Status::error(name + " has more than " + std::to_string(kMostFrames) +
                           " samples, which are decoded at once: convert it to a WAV file, which "
                           "is read in place");
    }
  }
  if (samples.empty()) {
    return Status::error(name + " has no samples: give a recording that is not empty");
  }
  file.cut = samples.size() < decoder.frames();
  file.pcm.type = SampleType::kInt16;
  file.pcm.rate = decoder.rate();
  file.pcm.frames = samples.size();
  file.pcm.data = reinterpret_cast<const uint8_t*>(samples.data());
  return file;
}

}  // namespace

Result<SoundFile> read_sound(const uint8_t* bytes, size_t size, const std::string& name,
                             double most_seconds) {
  const Compression kind = compression_of(bytes, size);
  if (kind == Compression::kNone) {
    const Result<Wav> wav = read_wav(bytes, size, name);
    if (!wav.ok()) return wav.status();
    if (wav->pcm.seconds() > most_seconds) return too_long(name, most_seconds);
    SoundFile file;
    file.pcm = wav->pcm;
    file.cut = wav->cut;
    return file;
  }
  const Result<std::unique_ptr<SoundDecoder>> decoder = open_decoder(kind, bytes, size, name);
  if (!decoder.ok()) return decoder.status();
  return decode(**decoder, name, most_seconds);
}

Status check_sound(const uint8_t* bytes, size_t size, const std::string& name) {
  const Compression kind = compression_of(bytes, size);
  if (kind == Compression::kNone) return read_wav(bytes, size, name).status();
  return open_decoder(kind, bytes, size, name).status();
}

}  // namespace thimble
