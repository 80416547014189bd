#include "sound/wav.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace thimble {
namespace {

constexpr size_t kRiffHeader = 12, kChunkHeader = 8;
constexpr size_t kFormat = 16, kExtendedFormat = 40;  // bytes of their chunks, at least
constexpr uint16_t kInteger = 1, kFloat = 3, kExtensible = 0xFFFE;
constexpr uint32_t kUnknownSize = 0xFFFFFFFF;

template <typename T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

std::string_view tag(const uint8_t* bytes) { return {reinterpret_cast<const char*>(bytes), 4}; }

/// How samples are stored; nothing if they are not read.
std::optional<SampleType> sample_type(uint16_t kind, size_t size) {
  if (kind == kFloat && size == 4) return SampleType::kFloat32;
  if (kind == kFloat && size == 8) return SampleType::kFloat64;
  constexpr SampleType kIntegers[] = {SampleType::kUint8, SampleType::kInt16, SampleType::kInt24,
                                      SampleType::kInt32};
  if (kind == kInteger && size >= 1 && size <= 4) return kIntegers[size - 1];
  return std::nullopt;
}

/// Whether bytes, perhaps none, are chunks up to their end: samples are not.
bool are_chunks(const uint8_t* bytes, size_t size) {
  while (size >= kChunkHeader) {
    const auto is_text = [](uint8_t byte) { return byte >= ' ' && byte <= '~'; };
    if (!std::all_of(bytes, bytes + 4, is_text)) return false;
    const uint64_t length = load<uint32_t>(bytes + 4);
    const uint64_t padded = kChunkHeader + length + length % 2;
    if (padded > size) return false;
    bytes += padded;
    size -= static_cast<size_t>(padded);
  }
  return size == 0;
}

Result<Pcm> read_format(const uint8_t* chunk, size_t size, const std::string& name) {
  if (size < kFormat) return Status::error(name + " is damaged: its format is cut off");
  uint16_t kind = load<uint16_t>(chunk);
  const int32_t channels = load<uint16_t>(chunk + 2);
  const uint32_t rate = load<uint32_t>(chunk + 4);
  const int32_t frame = load<uint16_t>(chunk + 12), bits = load<uint16_t>(chunk + 14);
  if (kind == kExtensible && size >= kExtendedFormat) kind = load<uint16_t>(chunk + 24);
  if (channels < 1 || channels > kMostChannels) {
    return Status::error(name + " has " + std::to_string(channels) +
                         " channels, but must have 1 to " + std::to_string(kMostChannels) +
                         ": convert it");
  }
  if (rate < 1 || rate > kMostRate) {
    return Status::error(name + " has " + std::to_string(rate) +
                         " samples per second, but must have 1 to " + std::to_string(kMostRate) +
                         ": convert it");
  }
  // A sample of fewer bits than its bytes has them at the upper end.
  const auto bytes = static_cast<size_t>(frame / channels);
  const std::optional<SampleType> type = sample_type(kind, bytes);
  if (!type || frame % channels != 0 || bits > 8 * static_cast<int32_t>(bytes)) {
    return Status::error(name + " has samples of format " + std::to_string(kind) + " and " +
                         std::to_string(bits) +
                         " bits, but needs integers of 8 to 32 bits or floats of 32 or 64. "
                         "Convert it to 16-bit PCM");
  }
  Pcm pcm;
  pcm.type = *type;
  pcm.channels = channels;
  pcm.rate = static_cast<int32_t>(rate);
  return pcm;
}

}  // namespace

Result<Wav> read_wav(const uint8_t* bytes, size_t size, const std::string& name) {
  const bool is_riff = size >= kRiffHeader && tag(bytes + 8) == "WAVE" &&
                       (tag(bytes) == "RIFF" || tag(bytes) == "RF64");
  if (!is_riff) {
    return Status::error(name + " is not a WAV file: convert it to one of 16-bit PCM");
  }
  std::optional<Pcm> format;
  for (size_t at = kRiffHeader; size - at >= kChunkHeader;) {
    const std::string_view kind = tag(bytes + at);
    const uint32_t length = load<uint32_t>(bytes + at + 4);
    at += kChunkHeader;
    const size_t left = size - at;
    if (kind == "fmt ") {
      const Result<Pcm> read = read_format(bytes + at, std::min<size_t>(length, left), name);
      if (!read.ok()) return read.status();
      format = *read;
    }
    if (kind == "data") {
      if (!format) return Status::error(name + " is damaged: no format precedes its samples");
      // A writer that could not go back leaves a length of 0 or of all ones.
      const bool unknown = length == kUnknownSize || (length == 0 && !are_chunks(bytes + at, left));
      const size_t used = unknown ? left : std::min<size_t>(length, left);
      Wav wav{*format, !unknown && length > left, unknown ? UINT64_MAX : length};
      wav.pcm.data = bytes + at;
      wav.pcm.frames = used / (static_cast<size_t>(format->channels) * size_of(format->type));
      if (wav.pcm.frames == 0) {
        return Status::error(name + " has no samples: give a recording that is not empty");
      }
      return wav;
    }
    const uint64_t padded = uint64_t{length} + length % 2;
    if (padded > left) break;
    at += static_cast<size_t>(padded);
  }
  return Status::error(name + " is cut off before its samples: write it again");
}

}  // namespace thimble
