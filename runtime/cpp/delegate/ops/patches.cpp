#include "delegate/ops/patches.h"

#include <algorithm>
#include <cstring>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {
namespace {

template <size_t kCount>
void copy(const float* from, float* to) {
  std::memcpy(to, from, kCount * sizeof(float));
}

/// Copies a window's line: of the usual sizes without a call.
void copy_line(const float* from, size_t count, float* to) {
  switch (count) {
    case 3:
      return copy<3>(from, to);
    case 5:
      return copy<5>(from, to);
    case 7:
      return copy<7>(from, to);
    default:
      std::copy_n(from, count, to);
  }
}

}  // namespace

PatchesOp PatchesOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint8_t>(2) != 0,
          Window::read(table, 3)};
}

void PatchesOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_slot(input) || !checker->has_slot(output)) return;
  window.check(output, checker);
  const size_t height = checker->height(input), width = checker->width(input);
  checker->check((planar ? width : height) == window.size(),
                 "has a picture of " + std::to_string(window.size()) + " numbers");
  checker->has_slot(output, (planar ? height : width) * window.taps());
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
}

void PatchesOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

void PatchesOp::copy_planar(size_t sample, size_t y, size_t x, float* to,
                            OpContext& context) const {
  const Side &down = window.vertical, &across = window.horizontal;
  const Range lines = down.inside(y), taps = across.inside(x);
  const size_t channels = context.height(input), stride = context.stride(input);
  if (lines.size() < down.kernel || taps.size() < across.kernel) {
    std::fill_n(to, channels * window.taps(), 0.0f);
  }
  const float* plane = context.row(input, sample * channels);
  for (size_t channel = 0; channel < channels; ++channel, plane += stride) {
    for (size_t line = lines.first; line < lines.last; ++line) {
      const float* from = plane + down.place(y, line) * across.size;
      float* const numbers = to + (channel * down.kernel + line) * across.kernel;
      if (across.dilation == 1) {
        if (taps.size() > 0) {
          copy_line(from + across.place(x, taps.first), taps.size(), numbers + taps.first);
        }
        continue;
      }
      for (size_t tap = taps.first; tap < taps.last; ++tap) {
        numbers[tap] = from[across.place(x, tap)];
      }
    }
  }
}

void PatchesOp::copy_rows(size_t sample, size_t y, size_t x, float* to, OpContext& context) const {
  const Side &down = window.vertical, &across = window.horizontal;
  const Range lines = down.inside(y), taps = across.inside(x);
  const size_t channels = context.width(input);
  if (lines.size() < down.kernel || taps.size() < across.kernel) {
    std::fill_n(to, channels * window.taps(), 0.0f);
  }
  for (size_t line = lines.first; line < lines.last; ++line) {
    const size_t first = sample * window.size() + down.place(y, line) * across.size;
    for (size_t tap = taps.first; tap < taps.last; ++tap) {
      std::copy_n(context.row(input, first + across.place(x, tap)), channels,
                  to + (line * across.kernel + tap) * channels);
    }
  }
}

Work PatchesOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    const size_t sample = row / op.height, at = row % op.height;
    const size_t y = at / window.horizontal.output, x = at % window.horizontal.output;
    float* const to = context.row(output, row);
    planar ? copy_planar(sample, y, x, to, context) : copy_rows(sample, y, x, to, context);
  }
  return context.work(2 * rows.count * context.width(output) * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
