#include "picture/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace thimble {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kMostBits = 32 - 8 - 2;  // behind the point of a weight: sums of bytes fit 32 bits

double sinc(double x) { return x == 0 ? 1 : std::sin(x * kPi) / (x * kPi); }

double weight(Filter filter, double x) {
  constexpr double kA = -0.5;
  if (filter == Filter::kLanczos) return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  x = std::fabs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

double reach(Filter filter) {
  return filter == Filter::kLanczos ? 3 : filter == Filter::kBicubic ? 2 : 1;
}

/// Which pixels of a row or column become each pixel of another length, and how much of each.
struct Weights {
  struct Range {
    size_t begin, count;
    size_t first;  ///< of its weights
  };
  std::vector<Range> ranges;
  std::vector<double> numbers;

  Weights(size_t from, size_t to, Filter filter) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double stretch = std::max(scale, 1.0), support = reach(filter) * stretch;
    const double inverse = 1.0 / stretch;
    for (size_t i = 0; i < to; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto low = static_cast<int64_t>(center - support + 0.5);
      const auto high = static_cast<int64_t>(center + support + 0.5);
      const int64_t begin = std::max<int64_t>(low, 0);
      const int64_t end = std::min(high, static_cast<int64_t>(from));
      const size_t first = numbers.size();
      double sum = 0;
      for (int64_t at = begin; at < end; ++at) {
        numbers.push_back(weight(filter, (static_cast<double>(at) - center + 0.5) * inverse));
        sum += numbers.back();
      }
      ranges.push_back({static_cast<size_t>(begin), numbers.size() - first, first});
      if (sum == 0) continue;
      for (size_t at = first; at < numbers.size(); ++at) numbers[at] /= sum;
    }
  }
};

/// Weights as integers, which are larger by 2 to the power of `bits`.
struct Integers {
  int bits = kMostBits;
  std::vector<int32_t> numbers;

  Integers(const Weights& weights, Reference reference) {
    if (reference == Reference::kTorch) {
      const double most = *std::max_element(weights.numbers.begin(), weights.numbers.end());
      bits = 0;  // as many as keep the largest below 2 to the power of 15
      while (bits < kMostBits && static_cast<int>(0.5 + most * (1 << (bits + 1))) < 1 << 15) ++bits;
    }
    numbers.reserve(weights.numbers.size());
    for (const double one : weights.numbers) {
      const double share = one * (1 << bits);
      numbers.push_back(static_cast<int32_t>(share < 0 ? share - 0.5 : share + 0.5));
    }
  }

  int32_t half() const { return 1 << (bits - 1); }
  /// A sum that begins with half(), from half of a level on.
  uint8_t rounded(int32_t sum) const {
    return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255));
  }
};

Picture empty(size_t width, size_t height) {
  Picture picture;
  picture.width = width;
  picture.height = height;
  picture.pixels.resize(3 * width * height);
  return picture;
}

Picture resize_rows(const Picture& picture, size_t width, Filter filter, Reference reference) {
  const Weights weights(picture.width, width, filter);
  const Integers integers(weights, reference);
  const int32_t half = integers.half();
  Picture out = empty(width, picture.height);
  uint8_t* bytes = out.pixels.data();
  for (size_t y = 0; y < picture.height; ++y) {
    const uint8_t* row = &picture.pixels[3 * picture.width * y];
    for (const Weights::Range& range : weights.ranges) {
      int32_t sums[3] = {half, half, half};
      const uint8_t* pixel = row + 3 * range.begin;
      const int32_t* number = &integers.numbers[range.first];
      for (size_t i = 0; i < range.count; ++i, pixel += 3) {
        for (size_t color = 0; color < 3; ++color) sums[color] += pixel[color] * number[i];
      }
      for (const int32_t sum : sums) *bytes++ = integers.rounded(sum);
    }
  }
  return out;
}

Picture resize_columns(const Picture& picture, size_t height, Filter filter, Reference reference) {
  const Weights weights(picture.height, height, filter);
  const Integers integers(weights, reference);
  Picture out = empty(picture.width, height);
  std::vector<int32_t> sums(3 * picture.width);
  for (size_t y = 0; y < height; ++y) {
    const Weights::Range& range = weights.ranges[y];
    std::fill(sums.begin(), sums.end(), integers.half());
    for (size_t i = 0; i < range.count; ++i) {
      const uint8_t* row = &picture.pixels[sums.size() * (range.begin + i)];
      const int32_t number = integers.numbers[range.first + i];
      for (size_t at = 0; at < sums.size(); ++at) sums[at] += row[at] * number;
    }
    uint8_t* row = &out.pixels[sums.size() * y];
    for (size_t at = 0; at < sums.size(); ++at) row[at] = integers.rounded(sums[at]);
  }
  return out;
}

/// Whether Pillow 13 begins with the columns: where the height loses more than twice as many pixels
/// as the width.
bool begins_with_columns(const Picture& picture, size_t width, size_t height) {
  const auto lost = [](size_t from, size_t to) {
    return static_cast<int64_t>(from) - static_cast<int64_t>(to);
  };
  const int64_t rows = lost(picture.height, height);
  return rows > 0 && rows > 2 * lost(picture.width, width);
}

}  // namespace

Picture resize(const Picture& picture, size_t width, size_t height, Filter filter,
               Reference reference) {
  const bool across = width != picture.width, down = height != picture.height;
  if (!across && !down) return picture;
  if (!down) return resize_rows(picture, width, filter, reference);
  if (!across) return resize_columns(picture, height, filter, reference);
  if (reference == Reference::kPillow && begins_with_columns(picture, width, height)) {
    return resize_rows(resize_columns(picture, height, filter, reference), width, filter,
                       reference);
  }
  return resize_columns(resize_rows(picture, width, filter, reference), height, filter, reference);
}

std::vector<double> shares(size_t from, size_t to, Filter filter) {
  const Weights weights(from, to, filter);
  std::vector<double> all(from * to);
  for (size_t i = 0; i < to; ++i) {
    const Weights::Range& range = weights.ranges[i];
    std::copy_n(&weights.numbers[range.first], range.count, &all[i * from + range.begin]);
  }
  return all;
}

}  // namespace thimble
