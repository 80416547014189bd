#include "sound/log_mel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/flatbuffer.h"
#include "core/settings_version.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1, kParakeetVersion = 2;
constexpr double kPi = 3.14159265358979323846;
constexpr double kLeastEnergy = 1e-10;
constexpr double kAddedEnergy = 0x1p-24;  // of Parakeet
constexpr double kLeastDeviation = 1e-5;  // which is added to it
constexpr size_t kMostFrame = 1u << 16;   // samples, more than any model has
constexpr size_t kTogether = 512;         // frames whose samples are read at once

enum Field {
  kVersionField,
  kSamplingRate,
  kFrame,
  kHop,
  kMels,
  kSamples,
  kFilters,
  kExtractor,
  kWinLength,
  kPreemphasis
};

Status damaged(const std::string& what) {
  return Status::error("the settings of log-mel features are damaged (" + what +
                       "): export the model again");
}

std::vector<size_t> radixes_of(size_t size) {
  std::vector<size_t> radixes;
  for (; size % 4 == 0; size /= 4) radixes.push_back(4);
  for (size_t radix = 2; size > 1; ++radix) {
    if (radix * radix > size) radix = size;  // it is a prime
    for (; size % radix == 0; size /= radix) radixes.push_back(radix);
  }
  return radixes;
}

}  // namespace

Result<LogMelSettings> LogMelSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THLM");
  if (!table.valid()) return damaged("they are something else");
  LogMelSettings settings;
  settings.extractor = static_cast<Extractor>(table.scalar<uint8_t>(kExtractor));
  const bool of_whisper = settings.extractor == Extractor::kWhisper;
  const Status version =
      check_settings_version("log-mel features", table.scalar<uint32_t>(kVersionField),
                             of_whisper ? kVersion : kParakeetVersion);
  if (!version.ok()) return version;
  if (settings.extractor > Extractor::kParakeet) return damaged("another extractor");
  settings.sampling_rate = table.scalar<int32_t>(kSamplingRate);
  settings.n_fft = table.scalar<uint32_t>(kFrame);
  settings.hop_length = table.scalar<uint32_t>(kHop);
  settings.n_mels = table.scalar<uint32_t>(kMels);
  settings.n_samples = table.scalar<uint32_t>(kSamples);
  settings.win_length = table.scalar<uint32_t>(kWinLength);
  if (settings.win_length == 0) settings.win_length = settings.n_fft;
  settings.preemphasis = table.scalar<float>(kPreemphasis);
  const auto filters = table.vector<float>(kFilters);
  const size_t n_fft = settings.n_fft, hop = settings.hop_length, samples = settings.n_samples;
  if (settings.sampling_rate < 1 || n_fft < 2 || n_fft > kMostFrame || hop < 1 || samples < hop ||
      samples <= n_fft || samples > std::numeric_limits<int32_t>::max()) {
    return damaged("a frame of " + std::to_string(n_fft) + " samples");
  }
  if (settings.win_length < 2 || settings.win_length > n_fft ||
      !std::isfinite(settings.preemphasis)) {
    return damaged("a window of " + std::to_string(settings.win_length) + " samples");
  }
  if (settings.n_mels < 1 || filters.size() / settings.n_mels != settings.bins() ||
      filters.size() % settings.n_mels != 0) {
    return damaged(std::to_string(filters.size()) + " numbers of filters");
  }
  for (size_t i = 0; i < filters.size(); ++i) settings.filters.push_back(filters[i]);
  return settings;
}

LogMel::LogMel(LogMelSettings settings)
    : settings_(std::move(settings)), radixes_(radixes_of(settings_.n_fft)) {
  const size_t size = settings_.n_fft, bins = settings_.bins();
  for (size_t i = 0; i < size; ++i) {
    const double angle = 2 * kPi * static_cast<double>(i) / static_cast<double>(size);
    cosines_.push_back(std::cos(angle));
    sines_.push_back(-std::sin(angle));
  }
  const size_t length = settings_.win_length, before = (size - length) / 2;
  const size_t period = settings_.extractor == Extractor::kWhisper ? length : length - 1;
  window_.resize(size);
  for (size_t i = 0; i < length; ++i) {
    const double angle = 2 * kPi * static_cast<double>(i) / static_cast<double>(period);
    window_[before + i] = 0.5 - 0.5 * std::cos(angle);
  }
  for (size_t mel = 0; mel < settings_.n_mels; ++mel) {
    const float* filter = &settings_.filters[mel * bins];
    Band band{bins, bins};
    for (size_t i = bins; i-- > 0;) {
      if (filter[i] == 0) continue;
      if (band.end == bins && band.begin == bins) band.end = i + 1;
      band.begin = i;
    }
    bands_.push_back(band);
  }
}

size_t LogMel::frames(const ResampledSound& sound) const {
  if (settings_.extractor == Extractor::kParakeet) {
    return std::max<size_t>(sound.size() / settings_.hop_length, kLeastFrames);
  }
  return std::max<size_t>(sound.size(), settings_.n_samples) / settings_.hop_length;
}

void LogMel::read(const ResampledSound& sound, int64_t begin, std::vector<float>* samples) const {
  if (settings_.extractor == Extractor::kParakeet) {
    std::vector<float> from(samples->size() + 1);  // with the one before
    sound.read(begin - 1, from.size(), from.data());
    const auto end = static_cast<int64_t>(sound.size());
    for (size_t i = 0; i < samples->size(); ++i) {
      const bool inside = begin + static_cast<int64_t>(i) < end;
      (*samples)[i] = inside ? from[i + 1] - settings_.preemphasis * from[i] : 0;
    }
    return;
  }
  const auto end = static_cast<int64_t>(std::max<size_t>(sound.size(), settings_.n_samples));
  sound.read(begin, samples->size(), samples->data());
  for (size_t i = 0; i < samples->size(); ++i) {  // reflected at both ends
    const int64_t at = begin + static_cast<int64_t>(i);
    if (at < 0) sound.read(-at, 1, &(*samples)[i]);
    if (at >= end) sound.read(2 * (end - 1) - at, 1, &(*samples)[i]);
  }
}

void LogMel::compute(const ResampledSound& sound, size_t first, size_t count,
                     float* features) const {
  const size_t size = settings_.n_fft, hop = settings_.hop_length, bins = settings_.bins();
  std::vector<float> samples;
  std::vector<double> frames(2 * size), energies(2 * bins);
  Scratch scratch(size);
  for (size_t done = 0; done < count;) {
    const size_t now = std::min(kTogether, count - done);
    const int64_t begin =
        static_cast<int64_t>((first + done) * hop) - static_cast<int64_t>(size / 2);
    samples.resize((now - 1) * hop + size);
    read(sound, begin, &samples);
    for (size_t i = 0; i < now; i += 2) {
      const size_t both = std::min<size_t>(2, now - i);
      std::fill(frames.begin(), frames.end(), 0.0);
      for (size_t k = 0; k < both; ++k) {
        const float* frame = &samples[(i + k) * hop];
        for (size_t j = 0; j < size; ++j) frames[k * size + j] = window_[j] * frame[j];
      }
      transform(frames.data(), &scratch, energies.data());
      for (size_t k = 0; k < both; ++k) {
        write(&energies[k * bins], count, features + done + i + k);
      }
    }
    done += now;
  }
}

// Stockham's transform of the complex numbers whose real parts are the first frame, and whose
// imaginary parts are the second: a pass for each factor of their number.
void LogMel::transform(const double* frames, Scratch* scratch, double* energies) const {
  const size_t size = settings_.n_fft, bins = settings_.bins();
  const double *real = frames, *imaginary = frames + size;
  size_t rest = size, stride = 1, target = 0;
  for (const size_t radix : radixes_) {
    rest /= radix;
    double *to_real = scratch->real[target].data(),
           *to_imaginary = scratch->imaginary[target].data();
    for (size_t part = 0; part < rest; ++part) {
      for (size_t j = 0; j < radix; ++j) {
        double* const r = to_real + stride * (radix * part + j);
        double* const m = to_imaginary + stride * (radix * part + j);
        std::fill_n(r, stride, 0.0);
        std::fill_n(m, stride, 0.0);
        for (size_t k = 0; k < radix; ++k) {
          const size_t turn = (j * k % radix * (size / radix) + part * j * stride) % size;
          const double c = cosines_[turn], s = sines_[turn];
          const double* const a = real + stride * (part + rest * k);
          const double* const b = imaginary + stride * (part + rest * k);
          for (size_t q = 0; q < stride; ++q) {
            r[q] += a[q] * c - b[q] * s;
            m[q] += a[q] * s + b[q] * c;
          }
        }
      }
    }
    real = to_real;
    imaginary = to_imaginary;
    target = 1 - target;
    stride *= radix;
  }
  for (size_t k = 0; k < bins; ++k) {
    const size_t other = (size - k) % size;
    const double sum_r = real[k] + real[other], sum_m = imaginary[k] - imaginary[other];
    const double left_r = imaginary[k] + imaginary[other], left_m = real[other] - real[k];
    energies[k] = (sum_r * sum_r + sum_m * sum_m) / 4;
    energies[bins + k] = (left_r * left_r + left_m * left_m) / 4;
  }
}

void LogMel::write(const double* energies, size_t stride, float* features) const {
  const size_t bins = settings_.bins();
  for (size_t mel = 0; mel < settings_.n_mels; ++mel) {
    const float* filter = &settings_.filters[mel * bins];
    double energy = 0;
    for (size_t i = bands_[mel].begin; i < bands_[mel].end; ++i) energy += filter[i] * energies[i];
    if (settings_.extractor == Extractor::kParakeet) {
      features[mel * stride] = static_cast<float>(std::log(energy + kAddedEnergy));
      continue;
    }
    // Not std::max(): it would hide a NaN.
    features[mel * stride] =
        static_cast<float>(std::log10(energy < kLeastEnergy ? kLeastEnergy : energy));
  }
}

void LogMel::normalize(float largest, size_t count, float* features) {
  for (size_t i = 0; i < count; ++i) {
    features[i] = std::max(features[i], largest - kRange) / 4 + 1;
  }
}

float LogMel::silence() { return static_cast<float>(std::log(2 * kAddedEnergy)); }

void LogMel::standardize(size_t count, float* feature) {
  double mean = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) mean += feature[i];
  mean /= static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) squares += (feature[i] - mean) * (feature[i] - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(count - 1)) + kLeastDeviation;
  for (size_t i = 0; i < count; ++i) {
    feature[i] = static_cast<float>((feature[i] - mean) / deviation);
  }
}

}  // namespace thimble
