#include "hear/sound_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/bytes.h"

namespace thimble {
namespace {

constexpr double kCutSeconds = 5;      // at the end of a window, where it may be cut
constexpr double kQuietSeconds = 0.2;  // that are compared
constexpr float kSilence = 1e-4f;      // of the loudest sample: 80 dB below it

Status not_finite() {
  return Status::error("the sound has samples that are not finite numbers: write it again");
}

/// Log-mel features.
class LogMelReader : public SoundReader {
 public:
  explicit LogMelReader(LogMelSettings settings) : log_mel_(std::move(settings)) {}

  int32_t rate() const override { return settings().sampling_rate; }
  size_t most() const override { return settings().frames(); }
  size_t hop() const override { return settings().hop_length; }

  Status look(size_t first, size_t count) override {
    read(first, count);
    for (const float feature : part_) {
      if (!std::isfinite(feature)) return not_finite();
      largest_ = std::max(largest_, feature);
    }
    return {};
  }
  size_t frames() const override { return log_mel_.frames(*sound_); }
  size_t spoken() const override { return std::max<size_t>(1, sound_->size() / hop()); }

  void read(size_t first, size_t count) override {
    if (first == first_ && count == count_) return;  // a sound of one window was all searched
    first_ = first;
    count_ = count;
    part_.resize(mels() * count);
    log_mel_.compute(*sound_, first, count, part_.data());
  }

 protected:
  void reset(const ResampledSound& sound) override {
    sound_ = &sound;
    first_ = SIZE_MAX;
    largest_ = -std::numeric_limits<float>::infinity();
  }
  std::vector<double> loudness() const override {
    std::vector<double> loudness(count_, 0.0);
    for (size_t mel = 0; mel < mels(); ++mel) {
      for (size_t i = 0; i < count_; ++i) loudness[i] += part_[mel * count_ + i];
    }
    return loudness;
  }

  const LogMelSettings& settings() const { return log_mel_.settings(); }
  size_t mels() const { return settings().n_mels; }
  /// Whether no feature that was read is above a bound.
  bool is_below(float bound) const {
    return std::all_of(part_.begin(), part_.end(), [&](float feature) { return feature <= bound; });
  }

  float largest_ = 0;                    ///< of the complete sound
  size_t first_ = SIZE_MAX, count_ = 0;  ///< of what was read
  std::vector<float> part_;              ///< [n_mels][count_]

 private:
  const LogMel log_mel_;
  const ResampledSound* sound_ = nullptr;
};

/// Whisper's, [n_mels][frames], of windows of one length.
class WindowReader : public LogMelReader {
 public:
  using LogMelReader::LogMelReader;

  size_t rows() const override { return mels(); }
  bool fits(const TensorSpec& input) const override {
    return input.sizes[1].least == static_cast<int64_t>(rows()) &&
           input.sizes[2].least == static_cast<int64_t>(most());
  }

  bool encode(size_t used, bool timestamps, std::vector<float>* numbers) override {
    float silence = std::max(LogMel::kLeast, largest_ - LogMel::kRange);
    const bool silent = is_below(silence);
    LogMel::normalize(largest_, part_.size(), part_.data());
    LogMel::normalize(largest_, 1, &silence);
    // Behind a cut as behind the end of a sound; behind that, with timestamps, as transformers.
    numbers->assign(rows() * most(), timestamps ? 0 : silence);
    for (size_t mel = 0; mel < rows(); ++mel) {
      std::copy_n(&part_[mel * count_], used, &(*numbers)[mel * most()]);
    }
    first_ = SIZE_MAX;  // what was read is normalized now
    return !silent;
  }
};

/// Parakeet's, [frames][n_mels], of as many frames as there are.
class FrameReader : public LogMelReader {
 public:
  using LogMelReader::LogMelReader;

  size_t rows() const override { return used_; }
  bool fits(const TensorSpec& input) const override {
    return input.sizes[1].least <= static_cast<int64_t>(LogMel::kLeastFrames) &&
           input.sizes[1].most == static_cast<int64_t>(most()) &&
           input.sizes[2].least == static_cast<int64_t>(mels());
  }

  bool encode(size_t used, bool, std::vector<float>* numbers) override {
    const bool silent = is_below(std::max(LogMel::silence(), largest_ + 2 * std::log(kSilence)));
    used_ = std::max(LogMel::kLeastFrames, std::min(used, count_));
    numbers->resize(used_ * mels());
    std::vector<float> feature(used_);
    for (size_t mel = 0; mel < mels(); ++mel) {
      // A last window of one frame has it twice.
      for (size_t i = 0; i < used_; ++i) feature[i] = part_[mel * count_ + std::min(i, count_ - 1)];
      LogMel::standardize(used_, feature.data());
      for (size_t i = 0; i < used_; ++i) (*numbers)[i * mels() + mel] = feature[i];
    }
    return !silent;
  }

 private:
  size_t used_ = 0;
};

/// Samples in rows, [rows][row], as many as there are.
class WaveformReader : public SoundReader {
 public:
  explicit WaveformReader(WaveformSettings settings) : settings_(settings) {}

  int32_t rate() const override { return settings_.sampling_rate; }
  size_t most() const override { return settings_.most; }
  size_t hop() const override { return settings_.row; }
  size_t rows() const override { return rows_; }
  bool fits(const TensorSpec& input) const override {
    return input.sizes[1].least <= static_cast<int64_t>(settings_.least) &&
           input.sizes[1].most == static_cast<int64_t>(settings_.most) &&
           input.sizes[2].least == static_cast<int64_t>(settings_.row);
  }

  Status look(size_t first, size_t count) override {
    read(first, count);
    for (const float sample : samples_) {
      if (!std::isfinite(sample)) return not_finite();
      largest_ = std::max(largest_, std::fabs(sample));
    }
    return {};
  }
  size_t frames() const override { return std::max(settings_.least, rows_in(sound_->size())); }
  size_t spoken() const override { return std::max<size_t>(1, rows_in(sound_->size())); }

  const WaveformSettings* stream() const override {
    return settings_.streams() ? &settings_ : nullptr;
  }

  void read(size_t first, size_t count) override {
    first_ = first;
    samples_.resize(count * hop());
    sound_->read(static_cast<int64_t>(first * hop()), samples_.size(), samples_.data());
  }

  bool encode(size_t used, bool, std::vector<float>* numbers) override {
    rows_ = std::max(settings_.least, used);
    numbers->assign(rows_ * hop(), 0.0f);
    std::copy_n(samples_.data(), std::min(used * hop(), samples_.size()), numbers->data());
    const bool is_sound = std::any_of(numbers->begin(), numbers->end(),
                                      [&](float x) { return std::fabs(x) > kSilence * largest_; });
    if (settings_.streams()) compress(numbers);
    return is_sound;
  }

 protected:
  void reset(const ResampledSound& sound) override {
    sound_ = &sound;
    largest_ = 0;
  }

  std::vector<double> loudness() const override {
    std::vector<double> loudness(samples_.size() / hop(), 0.0);
    for (size_t i = 0; i < samples_.size(); ++i) {
      loudness[i / hop()] += static_cast<double>(samples_[i]) * samples_[i];
    }
    for (double& one : loudness) one = std::log10(one + 1e-10);
    return loudness;
  }

 private:
  size_t rows_in(uint64_t samples) const {
    if (settings_.streams()) return static_cast<size_t>((samples + hop() - 1) / hop());
    return static_cast<size_t>((samples + 1) / hop());  // the first step sees two rows but a sample
  }

  /// Compresses the frames of what was read; one that the sound's end cuts is zeros.
  void compress(std::vector<float>* numbers) const {
    const size_t frame = settings_.frame, first = first_ * hop();
    for (size_t at = 0; at < numbers->size(); at += frame) {
      float* const samples = numbers->data() + at;
      if (first + at + frame > sound_->size()) std::fill_n(samples, frame, 0.0f);
      settings_.compress(samples);
    }
  }

  const WaveformSettings settings_;
  const ResampledSound* sound_ = nullptr;
  float largest_ = 0;
  size_t first_ = 0;  ///< of the rows that were read
  size_t rows_ = 0;
  std::vector<float> samples_;
};

}  // namespace

Result<std::unique_ptr<SoundReader>> SoundReader::load(TensorProgram& program) {
  const std::string_view log_mel = program.named_data("thimble.log_mel");
  if (!log_mel.empty()) {
    Result<LogMelSettings> settings = LogMelSettings::load(bytes_of(log_mel), log_mel.size());
    if (!settings.ok()) return settings.status();
    const bool of_windows = settings->extractor == Extractor::kWhisper;
    if (of_windows) return std::unique_ptr<SoundReader>(new WindowReader(std::move(*settings)));
    return std::unique_ptr<SoundReader>(new FrameReader(std::move(*settings)));
  }
  const std::string_view waveform = program.named_data("thimble.waveform");
  if (waveform.empty()) {
    return Status::error("it is not a model that hears: export one with thimble-export");
  }
  const Result<WaveformSettings> settings =
      WaveformSettings::load(bytes_of(waveform), waveform.size());
  if (!settings.ok()) return settings.status();
  return std::unique_ptr<SoundReader>(new WaveformReader(*settings));
}

Status SoundReader::begin(const ResampledSound& sound, const std::function<bool()>& interrupted) {
  reset(sound);
  Status status;
  for (size_t first = 0; status.ok() && first < frames() && !interrupted(); first += most()) {
    status = look(first, std::min(most(), frames() - first));
  }
  return status;
}

size_t SoundReader::quietest_end() const {
  const double per_second = static_cast<double>(rate()) / static_cast<double>(hop());
  const std::vector<double> loud = loudness();
  const size_t frames = loud.size();
  const auto wide = static_cast<size_t>(kQuietSeconds * per_second) + 1;
  const auto reach = std::min(frames / 2, static_cast<size_t>(kCutSeconds * per_second));
  size_t best = frames;
  double least = std::numeric_limits<double>::infinity();
  for (size_t begin = frames - reach; begin + wide <= frames; ++begin) {
    double sum = 0;
    for (size_t i = begin; i < begin + wide; ++i) sum += loud[i];
    if (sum > least) continue;
    least = sum;
    best = begin + wide / 2;
  }
  return best;
}

}  // namespace thimble
