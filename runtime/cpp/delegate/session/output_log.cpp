#include "delegate/session/output_log.h"

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>

namespace thimble::cpu {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::EventTracerDebugLogLevel;

bool OutputLog::is_wanted() const {
  return tracer_ != nullptr &&
         tracer_->event_tracer_debug_level() >= EventTracerDebugLogLevel::kIntermediateOutputs;
}

void OutputLog::on_output(const Op& op, const float* values, size_t rows, size_t width,
                          size_t stride) {
  dense_.resize(rows * width);
  for (size_t row = 0; row < rows; ++row) {
    std::copy_n(values + row * stride, width, dense_.data() + row * width);
  }
  SizesType sizes[] = {1, static_cast<SizesType>(rows), static_cast<SizesType>(width)};
  executorch::aten::DimOrderType order[] = {0, 1, 2};
  executorch::aten::StridesType strides[] = {sizes[1] * sizes[2], sizes[2], 1};
  TensorImpl impl(ScalarType::Float, 3, sizes, dense_.data(), order, strides);
  const auto logged =
      tracer_->log_intermediate_output_delegate(nullptr, op.debug_id, Tensor(&impl));
  if (!logged.ok()) {
    ET_LOG(Error, "the output of %s was not logged: give the tracer a larger debug buffer",
           op.name.c_str());
  }
}

}  // namespace thimble::cpu
