#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "picture/picture.h"
#include "picture/picture_settings.h"

namespace thimble {

/// In pixels, or a count of tiles.
struct Size {
  size_t width = 0, height = 0;
};

/// Each byte of each color as a model reads it.
using Normalized = std::array<std::array<float, 256>, 3>;

/// The size of a whole picture that is read as patches: near its own, within the bounds of rows,
/// and of whole squares, as the image processors of LFM2-VL and, with rotation, Qwen in
/// transformers choose it. One so long that its processor fails is made shorter. With places by
/// axis it is as large as the bound of rows allows, as for Gemma 4.
Size size_of_whole(Size picture, const PatchSettings& patches);

/// How many tiles of `side` pixels a picture is cut into; none if it is small.
Size grid_of_tiles(Size picture, size_t side, const PatchSettings& patches);

/// Writes the patches of a part of a picture, those of a square together, left to right and then
/// down, as squares are: normalized pixels row by row, the colors of each together, and then how
/// much of each learned place is in the patch's, and the cosines and sines of its rotation.
/// \param part its size, of whole squares; left, top: where it begins, pixels.
void write_patches(const Picture& picture, Size part, size_t left, size_t top,
                   const PatchSettings& patches, const Normalized& normalized, float* numbers);

}  // namespace thimble
