#include "sound/resampled_sound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thimble {
namespace {

constexpr int kCrossings = 64;
constexpr int kSteps = 2048;  // between two zero crossings: linear between them errs by -140 dB
constexpr int64_t kMostPhases = 1024;  // whose weights are kept
constexpr double kBeta = 12;
constexpr double kPi = 3.14159265358979323846;
constexpr size_t kTogether = 4096;  // samples whose frames are decoded at once

/// The modified Bessel function of the first kind and order 0.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > 1e-17 * sum; ++k) {
    term *= (x / 2 / k) * (x / 2 / k);
    sum += term;
  }
  return sum;
}

std::vector<double> windowed_sinc() {
  std::vector<double> filter(size_t{kCrossings} * kSteps + 2, 0.0);  // it ends with zeros
  filter[0] = 1;
  for (int i = 1; i < kCrossings * kSteps; ++i) {
    const double x = static_cast<double>(i) / kSteps, inside = x / kCrossings;
    filter[static_cast<size_t>(i)] = std::sin(kPi * x) / (kPi * x) *
                                     bessel(kBeta * std::sqrt(1 - inside * inside)) / bessel(kBeta);
  }
  return filter;
}

uint64_t resampled_size(uint64_t frames, int32_t from, int32_t to) {
  const auto rate = static_cast<uint64_t>(from);
  const uint64_t seconds = frames / rate, rest = frames % rate;
  return seconds * static_cast<uint64_t>(to) + (rest * static_cast<uint64_t>(to) + rate - 1) / rate;
}

}  // namespace

ResampledSound::ResampledSound(const Pcm& pcm, int32_t rate)
    : pcm_(pcm), rate_(rate), size_(resampled_size(pcm.frames, pcm.rate, rate)) {
  if (pcm.rate == rate) return;
  cutoff_ = std::min(1.0, static_cast<double>(rate) / pcm.rate);
  reach_ = static_cast<int64_t>(std::ceil(kCrossings / cutoff_));
  filter_ = windowed_sinc();
  // Samples lie at few places between frames, if the rates have a large common factor.
  const int64_t count = rate / std::gcd(pcm.rate, rate);
  if (count > kMostPhases) return;
  for (int64_t i = 0; i < count; ++i) {
    phases_.push_back(weights(static_cast<double>(i) / static_cast<double>(count)));
  }
}

void ResampledSound::grow(const Pcm& pcm) {
  pcm_ = pcm;
  size_ = resampled_size(pcm.frames, pcm.rate, rate_);
}

uint64_t ResampledSound::settled() const {
  if (filter_.empty()) return size_;
  const auto behind = static_cast<uint64_t>(reach_) + 1;  // frames that a sample needs
  return pcm_.frames <= behind ? 0 : resampled_size(pcm_.frames - behind, pcm_.rate, rate_);
}

void ResampledSound::read(int64_t first, size_t count, float* samples) const {
  if (filter_.empty()) return pcm_.read_mono(first, count, samples);
  const auto frame_of = [this](int64_t sample) {  // the one at or before it
    const int64_t place = sample * pcm_.rate;
    return place >= 0 ? place / rate_ : -((-place + rate_ - 1) / rate_);
  };
  std::vector<float> frames;
  for (size_t done = 0; done < count;) {
    const size_t now = std::min(kTogether, count - done);
    const int64_t from = first + static_cast<int64_t>(done);
    const int64_t first_frame = frame_of(from) - reach_;
    const int64_t last_frame = frame_of(from + static_cast<int64_t>(now) - 1) + reach_ + 1;
    frames.resize(static_cast<size_t>(last_frame - first_frame + 1));
    pcm_.read_mono(first_frame, frames.size(), frames.data());
    for (size_t i = 0; i < now; ++i) {
      const int64_t sample = from + static_cast<int64_t>(i);
      const bool inside = sample >= 0 && static_cast<uint64_t>(sample) < size_;
      samples[done + i] =
          inside ? static_cast<float>(interpolate(frames.data() + (frame_of(sample) - first_frame),
                                                  frame_of(sample), sample))
                 : 0.0f;
    }
    done += now;
  }
}

std::vector<double> ResampledSound::weights(double behind) const {
  const double step = cutoff_ * kSteps, end = kCrossings * static_cast<double>(kSteps);
  std::vector<double> weights;
  for (int64_t i = -reach_; i <= reach_; ++i) {
    const double at = std::abs(behind - static_cast<double>(i)) * step;
    const auto index = static_cast<size_t>(std::min(at, end));
    const double part = at - static_cast<double>(index);
    weights.push_back(
        at < end ? cutoff_ * (filter_[index] + part * (filter_[index + 1] - filter_[index])) : 0);
  }
  return weights;
}

double ResampledSound::interpolate(const float* frame, int64_t place, int64_t sample) const {
  // How far the sample lies behind the frame, exactly: in parts of a frame.
  const int64_t parts = sample * pcm_.rate - place * rate_;
  const std::vector<double>* weights = nullptr;
  std::vector<double> own;
  if (phases_.empty()) {
    own = this->weights(static_cast<double>(parts) / rate_);
    weights = &own;
  } else {
    weights = &phases_[static_cast<size_t>(parts / (rate_ / static_cast<int64_t>(phases_.size())))];
  }
  const float* const first = frame - reach_;
  double sums[4] = {};  // which do not wait for each other
  const size_t size = weights->size();
  size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += (*weights)[i + k] * first[i + k];
  }
  for (; i < size; ++i) sums[0] += (*weights)[i] * first[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace thimble
