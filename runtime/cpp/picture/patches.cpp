#include "picture/patches.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "picture/resize.h"

namespace thimble {
namespace {

double real(size_t count) { return static_cast<double>(count); }

/// How many units are in a length, rounded to the nearest, half to even.
size_t nearest(size_t length, size_t unit) {
  return static_cast<size_t>(std::nearbyint(real(length) / real(unit)));
}

double pixels_of(size_t rows, size_t unit) { return real(rows) * real(unit * unit); }

/// How much of each of `from` places is in each of `to`, of which the first and the last have those
/// at the ends: [to][from].
std::vector<double> shares_between_ends(size_t from, size_t to) {
  std::vector<double> all(from * to);
  for (size_t i = 0; i < to; ++i) {
    const double at = real(i) * real(from - 1) / real(std::max<size_t>(to - 1, 1));
    for (size_t j = 0; j < from; ++j)
      all[i * from + j] = std::max(1 - std::fabs(at - real(j)), 0.0);
  }
  return all;
}

/// 1 at the place of each of `count`, and at no other.
std::vector<double> one_each(size_t count, size_t places) {
  std::vector<double> all(count * places);
  for (size_t i = 0; i < count; ++i) all[i * places + i] = 1;
  return all;
}

std::vector<double> places_of(size_t count, const PatchSettings& patches) {
  if (patches.by_axis) return one_each(count, patches.places);
  return patches.turned > 0 ? shares_between_ends(patches.places, count)
                            : shares(patches.places, count, Filter::kBilinear);
}

/// Cosines and signed sines of the angles of a patch, those of its row before those of its column,
/// as halves of a head are multiplied by them.
class Turns {
 public:
  explicit Turns(const PatchSettings& patches) : each_(patches.turned / 4) {
    for (size_t i = 0; i < each_; ++i) {
      const float share = static_cast<float>(2 * i) / static_cast<float>(2 * each_);
      frequencies_.push_back(1.0F / std::pow(static_cast<float>(patches.theta), share));
    }
  }
  /// Returns the end of what it wrote.
  float* write(size_t row, size_t column, float* numbers) const {
    const size_t half = 2 * each_;
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(i < each_ ? row : column) * frequencies_[i % each_];
      numbers[i] = numbers[half + i] = std::cos(angle);
      numbers[3 * half + i] = std::sin(angle);
      numbers[2 * half + i] = -numbers[3 * half + i];
    }
    return numbers + 4 * half;
  }

 private:
  size_t each_;
  std::vector<float> frequencies_;
};

/// The largest of its ratio of sides that has at most most_rows squares. Quotients are rounded as
/// they are in transformers.
Size largest_whole(Size picture, const PatchSettings& patches) {
  const size_t unit = patches.unit(), most = patches.most_rows;
  const double area = real(picture.width) * real(picture.height);
  const double factor = std::sqrt(pixels_of(most, unit) / area);
  const auto units = [&](size_t length) {
    return static_cast<size_t>(std::floor(factor * real(length) / real(unit)));
  };
  const auto beside = [&](size_t longer, size_t shorter) {
    return std::clamp<size_t>(longer / shorter, 1, most);
  };
  size_t width = units(picture.width), height = units(picture.height);
  if (height == 0) {
    height = 1;
    width = beside(picture.width, picture.height);
  } else if (width == 0) {
    width = 1;
    height = beside(picture.height, picture.width);
  }
  return {width * unit, height * unit};
}

}  // namespace

Size size_of_whole(Size picture, const PatchSettings& patches) {
  if (patches.by_axis) return largest_whole(picture, patches);
  const size_t unit = patches.unit();
  const double area = real(picture.width) * real(picture.height);
  const double least = patches.least_pixels, most = patches.most_pixels;
  const size_t shortest = patches.turned > 0 ? 0 : 1;  // of what is then made larger
  size_t width = std::max(nearest(picture.width, unit), shortest);
  size_t height = std::max(nearest(picture.height, unit), shortest);
  // Quotients are rounded as they are there.
  if (pixels_of(width * height, unit) > most) {
    const double shrink = std::sqrt(area / most);
    const auto shorter = [&](size_t length) {
      const double units = std::floor(real(length) / shrink / real(unit));
      return std::max<size_t>(static_cast<size_t>(units), 1);
    };
    width = shorter(picture.width);
    height = shorter(picture.height);
  } else if (pixels_of(width * height, unit) < least) {
    const double grow = std::sqrt(least / area);
    const auto longer = [&](size_t length) {
      return static_cast<size_t>(std::ceil(real(length) * grow / real(unit)));
    };
    width = longer(picture.width);
    height = longer(picture.height);
  }
  if (width * height > patches.most_rows) {
    size_t& longest = width > height ? width : height;
    longest = std::max<size_t>(patches.most_rows / std::min(width, height), 1);
  }
  return {width * unit, height * unit};
}

Size grid_of_tiles(Size picture, size_t side, const PatchSettings& patches) {
  const size_t unit = patches.unit();
  const auto length = [&](size_t own) { return std::max(patches.size, nearest(own, unit) * unit); };
  const double most = patches.most_pixels * patches.tolerance;
  Size best;
  if (real(length(picture.height)) * real(length(picture.width)) <= most) return best;
  const double ratio = real(picture.width) / real(picture.height);
  const double area = real(picture.width) * real(picture.height);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [columns, rows] : patches.grids) {
    const double apart = std::fabs(ratio - real(columns) / real(rows));
    const bool is_large = area > 0.5 * real(side * side) * real(columns * rows);
    if (apart < least || (apart == least && is_large)) best = {columns, rows};
    least = std::min(least, apart);
  }
  return best;
}

void write_patches(const Picture& picture, Size part, size_t left, size_t top,
                   const PatchSettings& patches, const Normalized& normalized, float* numbers) {
  const size_t size = patches.size, square = patches.square, places = patches.places;
  const size_t columns = part.width / size, rows = part.height / size;
  const std::vector<double> across = places_of(columns, patches), down = places_of(rows, patches);
  const Turns turns(patches);
  const auto write_patch = [&](size_t column, size_t row) {
    for (size_t y = 0; y < size; ++y) {
      const size_t line = top + row * size + y;
      const uint8_t* byte = &picture.pixels[3 * (line * picture.width + left + column * size)];
      for (size_t i = 0; i < 3 * size; ++i) *numbers++ = normalized[i % 3][*byte++];
    }
    const double *of_row = &down[row * places], *of_column = &across[column * places];
    const auto write = [&](double share) { *numbers++ = static_cast<float>(share); };
    if (patches.by_axis) {
      std::for_each(of_column, of_column + places, write);
      std::for_each(of_row, of_row + places, write);
    }
    for (size_t y = 0; y < places && !patches.by_axis; ++y) {
      for (size_t x = 0; x < places; ++x) write(of_row[y] * of_column[x]);
    }
    numbers = turns.write(row, column, numbers);
  };
  for (size_t row = 0; row < rows; row += square) {
    for (size_t column = 0; column < columns; column += square) {
      for (size_t patch = 0; patch < square * square; ++patch) {
        write_patch(column + patch % square, row + patch / square);
      }
    }
  }
}

}  // namespace thimble
