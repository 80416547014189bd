#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <vector>

#include "delegate/cpu/executor.h"

namespace thimble::cpu {

/// Logs the output of every op under its debug_id, as a tensor of shape (1, rows, width), if
/// ExecuTorch's tracer records intermediate outputs. A call of several chunks logs each op once for
/// each chunk, in the order of the rows.
class OutputLog final : public OutputListener {
 public:
  explicit OutputLog(executorch::runtime::EventTracer* tracer) : tracer_(tracer) {}

  /// Whether the outputs are recorded; else logging would only cost time.
  bool is_wanted() const;

  void on_output(const Op& op, const float* values, size_t rows, size_t width,
                 size_t stride) override;

 private:
  executorch::runtime::EventTracer* tracer_;
  std::vector<float> dense_;  ///< the rows without the gaps between them
};

}  // namespace thimble::cpu
