/// How models read pictures and sounds, write what they hear and embed texts: the blobs of settings
/// in a `.pte` (exporter/schemas). Each reader is given every input; what loads is used.

#include <algorithm>
#include <optional>
#include <vector>

#include "embed/embedding_settings.h"
#include "fuzz/flatbuffer_mutator.h"
#include "fuzz/input.h"
#include "hear/transcription_settings.h"
#include "picture/tiles.h"
#include "sound/log_mel.h"
#include "sound/waveform.h"

namespace thimble {
namespace {

constexpr size_t kMost = 512;  // samples and pixels: more only take longer
const uint8_t kBytes[3 * 64] = {9, 200, 255, 4, 0, 77};

template <typename Settings>
std::optional<Settings> load(const uint8_t* data, size_t size) {
  Result<Settings> settings = Settings::load(data, size);
  if (settings.ok()) return *settings;
  require(!settings.message().empty());
  return std::nullopt;
}

void hear(const LogMelSettings& settings) {
  if (std::max({settings.n_fft, settings.hop_length, settings.n_mels}) > kMost) return;
  if (settings.sampling_rate > kMostRate) return;
  const ResampledSound sound({SampleType::kInt16, 1, settings.sampling_rate, 64, kBytes},
                             settings.sampling_rate);
  const LogMel log_mel(settings);
  const size_t count = std::min<size_t>(log_mel.frames(sound), 3);
  std::vector<float> features(settings.n_mels * count);
  log_mel.compute(sound, 0, count, features.data());
  LogMel::normalize(LogMel::kLeast, features.size(), features.data());
  if (count > 1) LogMel::standardize(count, features.data());
}

void see(const PictureSettings& settings) {
  const PatchSettings& patches = settings.patches;
  (void)settings.text(2, 1, 3);
  if (std::max({settings.longest_edge, settings.side, patches.most_rows}) > kMost) return;
  if (patches.size > 0 && patches.unit() * patches.most_rows * patches.places > 1 << 14) return;
  for (const auto& [columns, rows] : patches.grids) {
    if (columns * rows > 9) return;
  }
  for (const size_t height : {size_t{1}, size_t{8}}) {
    const Tiles tiles({64 / height, height, {kBytes, kBytes + sizeof(kBytes)}}, settings);
    for (const size_t tile : {size_t{0}, tiles.count() - 1}) {
      require(!tiles.numbers(tile).empty() && tiles.shape(tile).front() == 1);
    }
    (void)tiles.text();
    const auto again =
        Tiles::of_pixels(tiles.pixels(), tiles.rows(), tiles.columns(), tiles.whole(), settings);
    require(again.has_value() && *again == tiles);
  }
}

}  // namespace
}  // namespace thimble

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  (void)load<WaveformSettings>(data, size);
  if (const auto settings = load<LogMelSettings>(data, size)) hear(*settings);
  if (const auto settings = load<PictureSettings>(data, size)) see(*settings);
  if (const auto settings = load<EmbeddingSettings>(data, size)) (void)settings->prompt("query");
  if (const auto settings = load<TranscriptionSettings>(data, size)) (void)settings->language("de");
  return 0;
}
