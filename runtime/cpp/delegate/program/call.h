#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "delegate/program/program.h"

namespace thimble::cpu {

class OutputListener;

/// Rows of one sequence: positions that follow each other in one of the session's caches.
struct Segment {
  int32_t cache = 0;      ///< its number
  int64_t start_pos = 0;  ///< position of the first row
  size_t rows = 0;
};

/// The arguments of a call: as many rows of each as its segment says.
struct Call {
  Segment segment;
  const int64_t* tokens = nullptr;   ///< [rows], or null
  std::vector<const float*> inputs;  ///< in the order of Program::inputs; null where not rows
  std::vector<float*> outputs;       ///< in the order of Program::outputs
  executorch::runtime::EventTracer* tracer = nullptr;
  OutputListener* listener = nullptr;  ///< null: there is none
};

/// Rows that an output has in a call of `rows` rows.
inline size_t output_rows(const Program& program, size_t output, size_t rows) {
  return program.slots[program.outputs[output].slot].one_row ? 1 : rows;
}

}  // namespace thimble::cpu
