#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace thimble {

/// The most pixels of a picture that is read.
inline constexpr uint64_t kMostPixels = 100'000'000;

/// Rows of pixels, top to bottom, each of three bytes: red, green and blue.
struct Picture {
  size_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  ///< [height][width][3]
};

/// Whether a picture of these sizes is read; `name` is what to call it.
inline Status check_size(uint64_t width, uint64_t height, const std::string& name) {
  if (width == 0 || height == 0) return Status::error(name + " has no pixels: name another file");
  if (width <= kMostPixels && height <= kMostPixels / width) return {};
  return Status::error(name + " has " + std::to_string(width) + " x " + std::to_string(height) +
                       " pixels, but at most 100 million are read: make it smaller");
}

}  // namespace thimble
