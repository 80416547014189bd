#include "delegate/cpu/arguments.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>

namespace thimble::cpu {
namespace {

constexpr ssize_t kMostDims = 16;

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendInitContext;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::EventTracerProfilingLevel;
using executorch::runtime::Span;

bool is_contiguous(const Tensor& tensor) {
  return executorch::runtime::is_contiguous_dim_order(tensor.dim_order().data(), tensor.dim());
}

/// The sentence about an argument that is not as the program was exported.
Status wrong_argument(size_t index, const std::string& expected) {
  return Status::error("argument " + std::to_string(index) + " of the delegate is not " + expected +
                       ": export the model again");
}

/// Gives an output of a program by sample as many samples as the call has, and as many rows as they
/// have where these may be fewer; what else its shape says is as it was exported.
/// \param shorter whether they may.
Status shape_samples(const Slot& slot, size_t index, size_t samples, bool shorter, Tensor* tensor) {
  SizesType sizes[kMostDims];
  const auto dims = static_cast<size_t>(tensor->dim());
  size_t numbers = 1;
  for (size_t dim = 1; dim < dims; ++dim) {
    sizes[dim] = static_cast<SizesType>(tensor->size(static_cast<ssize_t>(dim)));
    if (shorter && dims == 3 && dim == 1) sizes[dim] = static_cast<SizesType>(slot.height);
    numbers *= static_cast<size_t>(sizes[dim]);
  }
  if (numbers != slot.height * slot.width) {
    return wrong_argument(index, "of " + std::to_string(slot.height * slot.width) + " numbers");
  }
  sizes[0] = static_cast<SizesType>(samples);
  if (executorch::runtime::resize_tensor(*tensor, ArrayRef<SizesType>(sizes, dims)) != Error::Ok) {
    return wrong_argument(index, "large enough for " + std::to_string(samples) + " samples");
  }
  return {};
}

bool may_be_shorter(const Program& program, size_t input) {
  return std::find(program.shorter.begin(), program.shorter.end(), input) != program.shorter.end();
}

}  // namespace

Error fail(Error code, const Status& status) {
  ET_LOG(Error, "%s", status.message().c_str());
  return code;
}

Result<std::shared_ptr<Session>> choose_session(BackendInitContext& context,
                                                int32_t default_threads) {
  const auto id = context.get_runtime_spec<int>(THIMBLE_SESSION_OPTION);
  if (id.error() == Error::NotFound) {
    return std::make_shared<Session>(
        thimble_session_options{default_threads, THIMBLE_CACHE_DEFAULT, 0});
  }
  if (!id.ok()) {
    return Status::error("the option " THIMBLE_SESSION_OPTION
                         " is not an int: give what thimble_session_open() returned");
  }
  std::shared_ptr<Session> session = find_session(*id);
  if (session != nullptr) return session;
  return Status::error("there is no session " + std::to_string(*id) + ": open one first");
}

Status read_inputs(const Program& program, Span<EValue*> args, Call* call) {
  if (args.size() != program.inputs.size() + program.outputs.size()) {
    return wrong_argument(args.size(), "one it expects");
  }
  int64_t start_pos = 0;
  call->rows = 0;
  call->heights.assign(program.by_sample ? program.inputs.size() : 0, 0);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const EValue& value = *args[i];
    call->inputs[i] = nullptr;
    if (program.inputs[i].role == Role::kStartPos && value.isInt()) {
      start_pos = value.toInt();
      continue;
    }
    if (!value.isTensor() || !is_contiguous(value.toTensor())) {
      return wrong_argument(i, "a contiguous tensor");
    }
    const Tensor& tensor = value.toTensor();
    const auto count = static_cast<size_t>(tensor.numel());
    size_t rows = count;
    if (program.inputs[i].role == Role::kRows) {
      const Slot& slot = program.slots[program.inputs[i].slot];
      size_t numbers = slot.width * (program.by_sample ? slot.height : 1);
      if (may_be_shorter(program, i) && tensor.dim() > 0 && tensor.size(0) == 1 &&
          count % slot.width == 0 && count > 0 && count < numbers) {
        numbers = count;
      }
      if (program.by_sample) call->heights[i] = numbers / slot.width;
      if (tensor.scalar_type() != ScalarType::Float || count % numbers != 0) {
        return wrong_argument(i, "rows of " + std::to_string(numbers) + " float32 numbers");
      }
      rows = count / numbers;
      call->inputs[i] = tensor.const_data_ptr<float>();
    } else if (tensor.scalar_type() != ScalarType::Long) {
      return wrong_argument(i, "of int64");
    } else if (program.inputs[i].role == Role::kStartPos) {
      if (count != 1) return wrong_argument(i, "one position");
      start_pos = tensor.const_data_ptr<int64_t>()[0];
      continue;
    } else {
      call->tokens = tensor.const_data_ptr<int64_t>();
      if (program.by_sample && program.sample_tokens > 0) rows = count / program.sample_tokens;
      if (program.tokens_of(rows) != count) return wrong_argument(i, "whole samples of tokens");
    }
    if (call->rows != 0 && rows != call->rows) {
      return wrong_argument(i, std::to_string(call->rows) + " rows, as the one before");
    }
    call->rows = rows;
  }
  if (program.by_sample) {
    call->segments.assign(call->rows, {0, 0, 1});
  } else {
    call->segments.assign(1, {0, start_pos, call->rows});
  }
  return {};
}

Status shape_outputs(const Program& program, Span<EValue*> args, Call* call) {
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const size_t index = program.inputs.size() + i;
    if (!args[index]->isTensor()) return wrong_argument(index, "a tensor");
    Tensor& tensor = args[index]->toTensor();
    const ssize_t dims = tensor.dim();
    if (tensor.scalar_type() != ScalarType::Float || dims < 2 || dims > kMostDims ||
        !is_contiguous(tensor)) {
      return wrong_argument(index, "a contiguous float32 tensor of 2 dimensions or more");
    }
    const Slot& slot = program.slots[program.outputs[i].slot];
    if (program.by_sample) {
      const Status status =
          shape_samples(slot, index, call->rows, !program.shorter.empty(), &tensor);
      if (!status.ok()) return status;
      call->outputs[i] = tensor.mutable_data_ptr<float>();
      continue;
    }
    // Rows are (1, rows, width), or heads (1, rows, heads, head_dim).
    SizesType sizes[kMostDims];
    const ssize_t at = dims == 2 ? 0 : 1;
    std::fill_n(sizes, at, 1);
    sizes[at] = static_cast<SizesType>(output_rows(program, i, call->rows));
    size_t width = 1;
    for (ssize_t dim = at + 1; dim < dims; ++dim) {
      sizes[dim] = static_cast<SizesType>(tensor.size(dim));
      width *= static_cast<size_t>(tensor.size(dim));
    }
    if (width != slot.width) return wrong_argument(index, "rows of " + std::to_string(slot.width));
    const ArrayRef<SizesType> shape(sizes, static_cast<size_t>(dims));
    if (executorch::runtime::resize_tensor(tensor, shape) != Error::Ok) {
      return wrong_argument(index, "large enough for " + std::to_string(call->rows) + " rows");
    }
    call->outputs[i] = tensor.mutable_data_ptr<float>();
  }
  return {};
}

EventTracer* recorder_of(EventTracer* tracer) {
  const bool hears = tracer != nullptr && tracer->event_tracer_profiling_level() ==
                                              EventTracerProfilingLevel::kProfileAllEvents;
  return hears ? tracer : nullptr;
}

}  // namespace thimble::cpu
