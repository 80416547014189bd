#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "sound/resampled_sound.h"

namespace thimble {

/// Whose features they are: the enum `Extractor` of log_mel.fbs.
enum class Extractor : uint8_t { kWhisper, kParakeet };

/// How a model reads sound (exporter/schemas/log_mel.fbs).
struct LogMelSettings {
  /// Fails with a sentence if the bytes are damaged, or of another kind or version.
  static Result<LogMelSettings> load(const uint8_t* data, size_t size);

  size_t bins() const { return n_fft / 2 + 1; }

  int32_t sampling_rate = 0;
  size_t n_fft = 0;            ///< samples of a frame
  size_t hop_length = 0;       ///< samples from one frame to the next
  size_t n_mels = 0;           ///< features of a frame
  size_t n_samples = 0;        ///< of a window
  std::vector<float> filters;  ///< [n_mels][bins()]: what each feature takes of each frequency
  Extractor extractor = Extractor::kWhisper;
  size_t win_length = 0;  ///< samples of a frame that are under the window, in its middle
  float preemphasis = 0;  ///< how much of the sample before each is subtracted from it

  /// Frames of a window.
  size_t frames() const { return n_samples / hop_length; }
};

/// Log-mel features: the logarithm of the energy in bands of frequencies, frame by frame, as
/// the feature extractors of Whisper and Parakeet compute them.
class LogMel {
 public:
  static constexpr float kLeast = -10;       ///< the logarithm of silence
  static constexpr float kRange = 8;         ///< of the logarithms that a model is given
  static constexpr size_t kLeastFrames = 2;  ///< of Parakeet: one has no deviation

  explicit LogMel(LogMelSettings settings);

  const LogMelSettings& settings() const { return settings_; }

  /// Frames of a sound; at least those of a window, or kLeastFrames, which silence fills.
  size_t frames(const ResampledSound& sound) const;

  /// Computes the logarithm of the energy of some frames, all within frames(). The sound is
  /// reflected at both ends, with the silence that fills a window; that of Parakeet is silent
  /// beyond them.
  /// \param features [n_mels][count].
  void compute(const ResampledSound& sound, size_t first, size_t count, float* features) const;

  /// Makes such numbers a model's input, in place: no number more than kRange below the largest,
  /// then x / 4 + 1.
  /// \param largest of the complete sound.
  static void normalize(float largest, size_t count, float* features);

  /// What Parakeet's are of silence, rounded up.
  static float silence();
  /// The same of Parakeet: gives the numbers of a feature the mean 0 and the deviation 1.
  /// \param count at least kLeastFrames.
  static void standardize(size_t count, float* feature);

 private:
  /// Where a transform works.
  struct Scratch {
    explicit Scratch(size_t size) {
      for (std::vector<double>* one : {real, real + 1, imaginary, imaginary + 1}) one->resize(size);
    }
    std::vector<double> real[2], imaginary[2];
  };
  struct Band {
    size_t begin, end;  ///< the frequencies that have a part in it
  };

  /// Reads samples, some of them perhaps beyond the sound's ends.
  void read(const ResampledSound& sound, int64_t begin, std::vector<float>* samples) const;
  /// The energies of two frames, [2][bins()] of [2][n_fft].
  void transform(const double* frames, Scratch* scratch, double* energies) const;
  /// Writes the features of a frame, `stride` apart.
  void write(const double* energies, size_t stride, float* features) const;

  const LogMelSettings settings_;
  const std::vector<size_t> radixes_;  ///< the factors of n_fft
  std::vector<double> window_;         ///< Hann's
  std::vector<double> cosines_, sines_;
  std::vector<Band> bands_;
};

}  // namespace thimble
