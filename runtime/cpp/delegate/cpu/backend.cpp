// What ExecuTorch sees of the CPU delegate.

#include <executorch/runtime/backend/interface.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "delegate/cpu/arguments.h"
#include "delegate/cpu/executor.h"
#include "delegate/memory/weights.h"
#include "delegate/program/call_check.h"
#include "delegate/session/output_log.h"
#include "delegate/threads/cores.h"
#include "kernels/select/select.h"

namespace thimble::cpu {
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
  Weights weights;
  std::unique_ptr<CpuExecutor> executor;
  Call call;  ///< the last call; its vectors are reused
};

std::string describe(const kernels::Variant& kernels, const Session& session,
                     const Program& program, kernels::CacheType type, const Weights& weights) {
  const size_t threads = static_cast<size_t>(session.options().threads);
  std::string text = std::string("kernels ") + kernels.name + ", " + std::to_string(threads) +
                     (threads == 1 ? " thread" : " threads");
  if (!program.caches.empty()) {
    text += std::string(", ") + cache_type_name(type) + " cache of " +
            std::to_string(program.caches.front().max_context_len) + " positions";
    size_t rows = 0;
    for (const CacheShape& cache : program.caches) rows = std::max(rows, cache.rows);
    if (rows > 0) text += ", windows in rings of " + std::to_string(rows);
  }
  if (!program.states.empty()) {
    size_t bytes = 0, kept = 0;
    for (const StateShape& state : program.states) {
      bytes += state.bytes();
      kept += state.kept_bytes();
    }
    text += ", states of " + std::to_string((bytes + 1023) >> 10) + " kB (" +
            std::to_string((kept + 1023) >> 10) + " kB with their last rows)";
    const size_t interval = program.snapshot_interval();
    if (interval > 0) text += ", a snapshot every " + std::to_string(interval) + " positions";
  }
  return text + ", " + weights.describe();
}

Result<std::unique_ptr<Delegate>> load(BackendInitContext& context, const FreeableBuffer& blob) {
  const kernels::Selection selection = kernels::select_variant();
  if (selection.variant == nullptr) return Status::error(selection.error);
  Result<std::shared_ptr<Session>> session =
      choose_session(context, static_cast<int32_t>(default_threads()));
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
  Result<std::unique_ptr<CpuExecutor>> executor =
      CpuExecutor::create(std::move(*program), *selection.variant, delegate->weights.packed(),
                          delegate->weights.floats(), *session, delegate->weights.adapters());
  if (!executor.ok()) return executor.status();
  delegate->executor = std::move(*executor);
  const Program& loaded = delegate->executor->program();
  delegate->call.inputs.resize(loaded.inputs.size());
  delegate->call.outputs.resize(loaded.outputs.size());
  (*session)->set_description(describe(*selection.variant, **session, loaded,
                                       delegate->executor->cache_type(), delegate->weights));
  return delegate;
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
    CpuExecutor& executor = *delegate->executor;
    Call& call = delegate->call;
    AskedSegments asked = executor.session().take_asked();
    Status status = read_inputs(executor.whole_program(), args, &call);
    if (status.ok()) status = executor.fit(call);
    const Program& program = executor.program();
    if (status.ok()) {
      status = choose_segments(program, executor.session(), std::move(asked), &call);
    }
    if (status.ok()) status = executor.check(call);
    if (status.ok()) status = shape_outputs(program, args, &call);
    call.tracer = recorder_of(context.event_tracer());
    OutputLog outputs(context.event_tracer());
    call.listener = outputs.is_wanted() ? &outputs : nullptr;
    if (status.ok()) status = executor.run(call);
    return status.ok() ? Error::Ok : fail(Error::InvalidArgument, status);
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Delegate*>(handle); }
};

/// Registers the backend unless it is registered already: each of our libraries contains it.
bool register_cpu_backend() {
  static CpuBackend backend;
  if (executorch::runtime::get_backend_class(THIMBLE_CPU_BACKEND) != nullptr) return true;
  return executorch::runtime::register_backend({THIMBLE_CPU_BACKEND, &backend}) == Error::Ok;
}

[[maybe_unused]] const bool registered = register_cpu_backend();

}  // namespace
}  // namespace thimble::cpu
