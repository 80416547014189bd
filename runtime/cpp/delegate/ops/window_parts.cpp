#include "delegate/ops/window_parts.h"

#include <algorithm>

#include "delegate/ops/context.h"

namespace thimble::cpu {
namespace {

size_t zeros_bytes(size_t columns) {
  return kernels::round_up(columns * sizeof(float), kernels::kLineBytes);
}

}  // namespace

WindowParts::WindowParts(const Window& window, uint32_t input, const OpContext& context,
                         uint8_t* memory)
    : window_(window),
      input_(input),
      context_(context),
      zeros_(reinterpret_cast<float*>(memory)),
      parts_(reinterpret_cast<const float**>(memory + zeros_bytes(context.width(input)))) {
  std::fill_n(zeros_, context.width(input), 0.0f);
}

size_t WindowParts::bytes(const Window& window, size_t columns, size_t rows) {
  return zeros_bytes(columns) +
         kernels::round_up(rows * window.taps() * sizeof(float*), kernels::kLineBytes);
}

const float* const* WindowParts::point(size_t first, size_t count) const {
  const Side &down = window_.vertical, &across = window_.horizontal;
  const size_t stride = context_.stride(input_);
  const float** part = parts_;
  for (size_t row = first; row < first + count; ++row) {
    const size_t sample = row / window_.outputs(), at = row % window_.outputs();
    const size_t y = at / across.output, x = at % across.output;
    const float* const picture = context_.row(input_, sample * window_.size());
    const Range lines = down.inside(y), taps = across.inside(x);
    for (size_t line = 0; line < down.kernel; ++line, part += across.kernel) {
      const bool is_inside = line >= lines.first && line < lines.last;
      const size_t from = is_inside ? down.place(y, line) * across.size : 0;
      for (size_t tap = 0; tap < across.kernel; ++tap) {
        part[tap] = is_inside && tap >= taps.first && tap < taps.last
                        ? picture + (from + across.place(x, tap)) * stride
                        : zeros_;
      }
    }
  }
  return parts_;
}

}  // namespace thimble::cpu
