#include "picture/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace thimble {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kBits = 32 - 8 - 2;  // behind the point of a weight: sums of bytes fit 32 bits

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
  std::vector<int32_t> numbers;

  Weights(size_t from, size_t to, Filter filter) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double stretch = std::max(scale, 1.0), support = reach(filter) * stretch;
    const double inverse = 1.0 / stretch;
    std::vector<double> real;
    for (size_t i = 0; i < to; ++i) {
      const double center = (static_cast<double>(i) + 0.5) * scale;
      const auto low = static_cast<int64_t>(center - support + 0.5);
      const auto high = static_cast<int64_t>(center + support + 0.5);
      const int64_t begin = std::max<int64_t>(low, 0);
      const int64_t end = std::min(high, static_cast<int64_t>(from));
      real.clear();
      double sum = 0;
      for (int64_t at = begin; at < end; ++at) {
        real.push_back(weight(filter, (static_cast<double>(at) - center + 0.5) * inverse));
        sum += real.back();
      }
      ranges.push_back({static_cast<size_t>(begin), real.size(), numbers.size()});
      for (const double one : real) {
        const double share = (sum != 0 ? one / sum : one) * (1 << kBits);
        numbers.push_back(static_cast<int32_t>(share < 0 ? share - 0.5 : share + 0.5));
      }
    }
  }
};

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));  // from half of a level on
}

constexpr int32_t kHalf = 1 << (kBits - 1);

Picture empty(size_t width, size_t height) {
  Picture picture;
  picture.width = width;
  picture.height = height;
  picture.pixels.resize(3 * width * height);
  return picture;
}

Picture resize_rows(const Picture& picture, size_t width, Filter filter) {
  const Weights weights(picture.width, width, filter);
  Picture out = empty(width, picture.height);
  uint8_t* bytes = out.pixels.data();
  for (size_t y = 0; y < picture.height; ++y) {
    const uint8_t* row = &picture.pixels[3 * picture.width * y];
    for (const Weights::Range& range : weights.ranges) {
      int32_t sums[3] = {kHalf, kHalf, kHalf};
      const uint8_t* pixel = row + 3 * range.begin;
      const int32_t* number = &weights.numbers[range.first];
      for (size_t i = 0; i < range.count; ++i, pixel += 3) {
        for (size_t color = 0; color < 3; ++color) sums[color] += pixel[color] * number[i];
      }
      for (const int32_t sum : sums) *bytes++ = rounded(sum);
    }
  }
  return out;
}

Picture resize_columns(const Picture& picture, size_t height, Filter filter) {
  const Weights weights(picture.height, height, filter);
  Picture out = empty(picture.width, height);
  std::vector<int32_t> sums(3 * picture.width);
  for (size_t y = 0; y < height; ++y) {
    const Weights::Range& range = weights.ranges[y];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (size_t i = 0; i < range.count; ++i) {
      const uint8_t* row = &picture.pixels[sums.size() * (range.begin + i)];
      const int32_t number = weights.numbers[range.first + i];
      for (size_t at = 0; at < sums.size(); ++at) sums[at] += row[at] * number;
    }
    uint8_t* row = &out.pixels[sums.size() * y];
    for (size_t at = 0; at < sums.size(); ++at) row[at] = rounded(sums[at]);
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

Picture resize(const Picture& picture, size_t width, size_t height, Filter filter) {
  const bool across = width != picture.width, down = height != picture.height;
  if (!across && !down) return picture;
  if (!down) return resize_rows(picture, width, filter);
  if (!across) return resize_columns(picture, height, filter);
  if (begins_with_columns(picture, width, height)) {
    return resize_rows(resize_columns(picture, height, filter), width, filter);
  }
  return resize_columns(resize_rows(picture, width, filter), height, filter);
}

}  // namespace thimble
