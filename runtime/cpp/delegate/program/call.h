#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "delegate/program/program.h"
#include "delegate/session/segments.h"

namespace thimble::cpu {

class OutputListener;

/// The arguments of a call: the rows of its segments, one segment after the other.
struct Call {
  std::vector<Segment> segments;
  size_t rows = 0;                   ///< of all segments
  const int64_t* tokens = nullptr;   ///< [rows], or null
  std::vector<const float*> inputs;  ///< in the order of Program::inputs; null where not rows
  std::vector<size_t> heights;       ///< rows of a sample of each, of a program by sample; or empty
  std::vector<float*> outputs;       ///< in the order of Program::outputs
  float* logits = nullptr;           ///< of all rows that get them; null: the output has the last
  executorch::runtime::EventTracer* tracer = nullptr;
  OutputListener* listener = nullptr;  ///< null: there is none
};

/// Rows that an output of the program has in a call of `rows` rows, or samples.
inline size_t output_rows(const Program& program, size_t output, size_t rows) {
  const Slot& slot = program.slots[program.outputs[output].slot];
  if (program.by_sample) return rows * slot.height;
  return slot.has_all_rows() ? rows : 1;
}

}  // namespace thimble::cpu
