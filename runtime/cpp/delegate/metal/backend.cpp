// What ExecuTorch sees of the Metal delegate: the CPU delegate's programs under another name.

#include <executorch/runtime/backend/interface.h>

#include <memory>
#include <new>
#include <optional>

#include "delegate/cpu/arguments.h"
#include "delegate/memory/weights.h"
#include "delegate/metal/executor.h"
#include "delegate/program/call_check.h"

namespace thimble::metal {
namespace {

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
  cpu::Weights weights;
  std::unique_ptr<MetalExecutor> executor;
  cpu::Call call;  ///< the last call; its vectors are reused
};

Result<std::unique_ptr<Delegate>> load(BackendInitContext& context, const FreeableBuffer& blob) {
  Result<std::unique_ptr<Device>> device = open_device();
  if (!device.ok()) return device.status();
  Result<std::shared_ptr<cpu::Session>> session = cpu::choose_session(context, /*threads=*/1);
  if (!session.ok()) return session.status();
  Result<cpu::Program> program =
      cpu::read_program(static_cast<const uint8_t*>(blob.data()), blob.size());
  if (!program.ok()) return program.status();
  if (context.get_named_data_map() == nullptr) {
    return Status::error("the program comes without named data: load it with ExecuTorch's Module");
  }
  Result<cpu::Weights> weights =
      cpu::Weights::load(*program, *context.get_named_data_map(), /*huge_pages=*/false);
  if (!weights.ok()) return weights.status();
  auto delegate = std::make_unique<Delegate>();
  delegate->weights = std::move(*weights);
  Result<std::unique_ptr<MetalExecutor>> executor =
      MetalExecutor::create(std::move(*program), delegate->weights.packed(),
                            delegate->weights.floats(), *session, std::move(*device));
  if (!executor.ok()) return executor.status();
  delegate->executor = std::move(*executor);
  const cpu::Program& loaded = delegate->executor->program();
  delegate->call.inputs.resize(loaded.inputs.size());
  delegate->call.outputs.resize(loaded.outputs.size());
  (*session)->set_description(delegate->executor->describe());
  return delegate;
}

class MetalBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }

  executorch::runtime::Result<DelegateHandle*> init(BackendInitContext& context,
                                                    FreeableBuffer* processed,
                                                    ArrayRef<CompileSpec>) const override {
    try {
      Result<std::unique_ptr<Delegate>> delegate = load(context, *processed);
      if (!delegate.ok()) {
        return cpu::fail(Error::DelegateInvalidCompatibility, delegate.status());
      }
      processed->Free();
      return delegate->release();
    } catch (const std::bad_alloc&) {
      return cpu::fail(Error::MemoryAllocationFailed,
                       Status::error("the Metal delegate does not fit into memory: free some"));
    }
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> args) const override {
    auto* delegate = static_cast<Delegate*>(handle);
    MetalExecutor& executor = *delegate->executor;
    cpu::Call& call = delegate->call;
    cpu::AskedSegments asked = executor.session().take_asked();
    Status status = cpu::read_inputs(executor.program(), args, &call);
    if (status.ok()) {
      status =
          cpu::choose_segments(executor.program(), executor.session(), std::move(asked), &call);
    }
    if (status.ok()) status = executor.check(call);
    if (status.ok()) status = cpu::shape_outputs(executor.program(), args, &call);
    call.tracer = cpu::recorder_of(context.event_tracer());
    if (status.ok()) status = executor.run(call);
    return status.ok() ? Error::Ok : cpu::fail(Error::InvalidArgument, status);
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Delegate*>(handle); }
};

/// Registers the backend unless it is registered already.
bool register_metal_backend() {
  static MetalBackend backend;
  if (executorch::runtime::get_backend_class(THIMBLE_METAL_BACKEND) != nullptr) return true;
  return executorch::runtime::register_backend({THIMBLE_METAL_BACKEND, &backend}) == Error::Ok;
}

[[maybe_unused]] const bool registered = register_metal_backend();

}  // namespace
}  // namespace thimble::metal
