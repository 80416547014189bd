// What ExecuTorch sees of the CPU delegate.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <memory>
#include <new>

#include "delegate/cores.h"
#include "delegate/executor.h"
#include "delegate/output_log.h"
#include "delegate/weights.h"
#include "kernels/select.h"

namespace thimble::cpu {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Span;

/// A program that ExecuTorch loaded.
struct Delegate {
  Weights weights;
  std::unique_ptr<Executor> executor;
  Call call;  ///< of the last call: its vectors are used again
};

/// Logs the sentence, which is all that ExecuTorch passes on, beside a code.
Error fail(Error code, const Status& status) {
  ET_LOG(Error, "%s", status.message().c_str());
  return code;
}

Result<std::shared_ptr<Session>> choose_session(BackendInitContext& context) {
  const auto id = context.get_runtime_spec<int>(THIMBLE_SESSION_OPTION);
  if (id.error() == Error::NotFound) {
    return std::make_shared<Session>(
        thimble_session_options{static_cast<int32_t>(default_threads()), THIMBLE_CACHE_DEFAULT, 0});
  }
  if (!id.ok()) {
    return Status::error("the option " THIMBLE_SESSION_OPTION
                         " is not an int: give what thimble_session_open() returned");
  }
  std::shared_ptr<Session> session = find_session(*id);
  if (session != nullptr) return session;
  return Status::error("there is no session " + std::to_string(*id) + ": open one first");
}

std::string describe(const kernels::Variant& kernels, const Session& session,
                     const Program& program, kernels::CacheType type, const Weights& weights) {
  const size_t threads = static_cast<size_t>(session.options().threads);
  std::string text = std::string("kernels ") + kernels.name + ", " + std::to_string(threads) +
                     (threads == 1 ? " thread" : " threads");
  if (!program.caches.empty()) {
    text += std::string(", ") + cache_type_name(type) + " cache of " +
            std::to_string(program.caches.front().max_context_len) + " positions";
  }
  return text + ", " + weights.describe();
}

Result<std::unique_ptr<Delegate>> load(BackendInitContext& context, const FreeableBuffer& blob) {
  const kernels::Selection selection = kernels::select_variant();
  if (selection.variant == nullptr) return Status::error(selection.error);
  Result<std::shared_ptr<Session>> session = choose_session(context);
  if (!session.ok()) return session.status();
  Result<Program> program = read_program(static_cast<const uint8_t*>(blob.data()), blob.size());
  if (!program.ok()) return program.status();
  if (context.get_named_data_map() == nullptr) {
    return Status::error("the program comes without named data: load it with ExecuTorch's Module");
  }
  Result<Weights> weights =
      Weights::load(*program, *context.get_named_data_map(), (*session)->options().huge_pages != 0);
  if (!weights.ok()) return weights.status();
  auto delegate = std::make_unique<Delegate>();
  delegate->weights = std::move(*weights);
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(std::move(*program), *selection.variant, delegate->weights.packed(),
                       delegate->weights.floats(), *session);
  if (!executor.ok()) return executor.status();
  delegate->executor = std::move(*executor);
  const Program& loaded = delegate->executor->program();
  delegate->call.inputs.resize(loaded.inputs.size());
  delegate->call.outputs.resize(loaded.outputs.size());
  (*session)->set_description(describe(*selection.variant, **session, loaded,
                                       delegate->executor->cache_type(), delegate->weights));
  return delegate;
}

bool is_contiguous(const Tensor& tensor) {
  return executorch::runtime::is_contiguous_dim_order(tensor.dim_order().data(), tensor.dim());
}

Status wrong_argument(size_t index, const std::string& wanted) {
  return Status::error("argument " + std::to_string(index) + " of the CPU delegate is not " +
                       wanted + ": export the model again");
}

/// Reads the inputs into `call`; each that has rows must have the same number.
Status read_inputs(const Program& program, Span<EValue*> args, Call* call) {
  int64_t start_pos = 0;
  call->rows = 0;
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
      const size_t width = program.slots[program.inputs[i].slot].width;
      if (tensor.scalar_type() != ScalarType::Float || count % width != 0) {
        return wrong_argument(i, "rows of " + std::to_string(width) + " float32 numbers");
      }
      rows = count / width;
      call->inputs[i] = tensor.const_data_ptr<float>();
    } else if (tensor.scalar_type() != ScalarType::Long) {
      return wrong_argument(i, "of int64");
    } else if (program.inputs[i].role == Role::kStartPos) {
      if (count != 1) return wrong_argument(i, "one position");
      start_pos = tensor.const_data_ptr<int64_t>()[0];
      continue;
    } else {
      call->tokens = tensor.const_data_ptr<int64_t>();
    }
    if (call->rows != 0 && rows != call->rows) {
      return wrong_argument(i, std::to_string(call->rows) + " rows, as the one before");
    }
    call->rows = rows;
  }
  call->start_pos = start_pos;
  return {};
}

/// Gives the outputs their shapes, and `call` their memory.
Status shape_outputs(const Executor& executor, Span<EValue*> args, Call* call) {
  const Program& program = executor.program();
  constexpr ssize_t kMostDims = 16;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const size_t index = program.inputs.size() + i;
    if (!args[index]->isTensor()) return wrong_argument(index, "a tensor");
    Tensor& tensor = args[index]->toTensor();
    const ssize_t dims = tensor.dim();
    if (tensor.scalar_type() != ScalarType::Float || dims < 2 || dims > kMostDims ||
        !is_contiguous(tensor)) {
      return wrong_argument(index, "a contiguous float32 tensor of 2 dimensions or more");
    }
    SizesType sizes[kMostDims];
    std::fill_n(sizes, dims, 1);
    sizes[dims - 1] = static_cast<SizesType>(program.slots[program.outputs[i].slot].width);
    sizes[dims - 2] = static_cast<SizesType>(executor.output_rows(i, call->rows));
    const ArrayRef<SizesType> shape(sizes, static_cast<size_t>(dims));
    if (executorch::runtime::resize_tensor(tensor, shape) != Error::Ok) {
      return wrong_argument(index, "large enough for " + std::to_string(call->rows) + " rows");
    }
    call->outputs[i] = tensor.mutable_data_ptr<float>();
  }
  return {};
}

class CpuBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }

  executorch::runtime::Result<DelegateHandle*> init(BackendInitContext& context,
                                                    FreeableBuffer* processed,
                                                    ArrayRef<CompileSpec>) const override {
    try {
      Result<std::unique_ptr<Delegate>> delegate = load(context, *processed);
      if (!delegate.ok()) return fail(Error::DelegateInvalidCompatibility, delegate.status());
      processed->Free();
      return delegate->release();
    } catch (const std::bad_alloc&) {
      return fail(Error::MemoryAllocationFailed,
                  Status::error("the CPU delegate does not fit into memory: free some"));
    }
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> args) const override {
    auto* delegate = static_cast<Delegate*>(handle);
    Executor& executor = *delegate->executor;
    Call& call = delegate->call;
    const Program& program = executor.program();
    if (args.size() != program.inputs.size() + program.outputs.size()) {
      return fail(Error::InvalidProgram, wrong_argument(args.size(), "one it expects"));
    }
    Status status = read_inputs(program, args, &call);
    if (status.ok()) status = executor.check_rows(call.rows, call.start_pos);
    if (status.ok()) status = shape_outputs(executor, args, &call);
    call.tracer = context.event_tracer();
    OutputLog outputs(call.tracer);
    call.listener = outputs.is_wanted() ? &outputs : nullptr;
    if (status.ok()) status = executor.run(call);
    return status.ok() ? Error::Ok : fail(Error::InvalidArgument, status);
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Delegate*>(handle); }
};

/// Registers the backend unless the process has it: each library of ours brings it along.
bool register_cpu_backend() {
  static CpuBackend backend;
  if (executorch::runtime::get_backend_class(THIMBLE_CPU_BACKEND) != nullptr) return true;
  return executorch::runtime::register_backend({THIMBLE_CPU_BACKEND, &backend}) == Error::Ok;
}

[[maybe_unused]] const bool registered = register_cpu_backend();

}  // namespace
}  // namespace thimble::cpu
