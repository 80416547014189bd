#include "delegate/cpu/executor.h"

#include <algorithm>
#include <optional>

#include "delegate/ops/context.h"
#include "delegate/program/call_check.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

/// Copies the caller's rows into their slots.
void take_inputs(const Call& call, OpContext& context) {
  const Range part = share(context.chunk.rows, context.thread, context.threads());
  bool any = false;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] == nullptr) continue;
    any = true;
    const uint32_t slot = context.program.inputs[i].slot;
    const size_t width = context.width(slot);
    for (size_t row = part.first; row < part.last; ++row) {
      std::copy_n(call.inputs[i] + (context.chunk.first + row) * width, width,
                  context.row(slot, row));
    }
  }
  if (any) context.team.barrier();
}

/// Copies outputs out of slots that are not the caller's own memory.
void give_outputs(const Call& call, OpContext& context) {
  const Range part = share(context.chunk.rows, context.thread, context.threads());
  bool any = false;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const uint32_t slot = context.program.outputs[i].slot;
    if (context.slots[slot] == call.outputs[i]) continue;
    any = true;
    const size_t width = context.width(slot);
    if (context.program.slots[slot].one_row) {
      if (context.thread == 0) std::copy_n(context.slots[slot], width, call.outputs[i]);
      continue;
    }
    for (size_t row = part.first; row < part.last; ++row) {
      std::copy_n(context.row(slot, row), width,
                  call.outputs[i] + (context.chunk.first + row) * width);
    }
  }
  if (any) context.team.barrier();
}

/// Passes the rows that an op has just computed to the call's listener.
void show_output(const Call& call, const Op& op, OpRows rows, OpContext& context) {
  if (call.listener == nullptr) return;
  if (context.thread == 0 && rows.count > 0) {
    const uint32_t slot = std::visit([](const auto& kind) { return kind.output; }, op.kind);
    call.listener->on_output(op, context.row(slot, rows.first), rows.count, context.width(slot),
                             context.stride(slot));
  }
  context.team.barrier();
}

}  // namespace

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(
    Program program, const kernels::Variant& kernels, std::vector<kernels::PackedWeight> weights,
    const float* floats, std::shared_ptr<Session> session, std::vector<const uint16_t*> adapters) {
  const kernels::CacheType type = session->cache_type(program.cache_type);
  Result<Workspace> workspace = Workspace::plan(program, kernels, session->team().size());
  if (!workspace.ok()) return workspace.status();
  std::vector<NamedGeometry> wanted;
  for (const CacheShape& cache : program.caches) {
    const size_t capacity = cache.rows > 0 ? cache.rows : cache.max_context_len;
    wanted.push_back(
        {cache.name, {cache.num_key_value_heads, cache.head_dim, capacity, type, cache.window}});
  }
  std::vector<NamedState> states;
  const size_t interval = program.snapshot_interval();
  const size_t snapshots = interval == 0 ? 0 : program.num_positions / interval;
  for (const StateShape& state : program.states) {
    states.push_back({state.name,
                      {state.rows, state.width, std::max(state.rows, state.history), interval,
                       snapshots, state.delta, kernels.replay_delta}});
  }
  std::vector<std::string> names;
  for (const Adapter& adapter : program.adapters) names.push_back(adapter.name);
  const Result<uint32_t> number = session->add_program(program.checksum, wanted, names, states);
  if (!number.ok()) return number.status();
  return std::unique_ptr<CpuExecutor>(
      new CpuExecutor(std::move(program), kernels, std::move(weights), floats, std::move(adapters),
                      std::move(session), std::move(*workspace), type, *number));
}

CpuExecutor::~CpuExecutor() { session_->remove_program(number_); }

Status CpuExecutor::check(const Segment& segment) const {
  const Status status = check_call_rows(program_, session_->length(segment.cache), segment);
  if (!status.ok() || !program_.keeps()) return status;
  return session_->check_start(number_, segment.cache, static_cast<size_t>(segment.start_pos));
}

void CpuExecutor::bind(const Call& call) {
  for (size_t slot = 0; slot < slots_.size(); ++slot) slots_[slot] = workspace_.slot(slot);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const uint32_t slot = program_.outputs[i].slot;
    if (slots_[slot] == nullptr) slots_[slot] = call.outputs[i];
  }
}

CallAdapter CpuExecutor::adapter_of(const Call& call) const {
  const int32_t index = session_->adapter_of(number_, call.segment.cache);
  return {index, index < 0 ? nullptr : adapters_[static_cast<size_t>(index)]};
}

Status CpuExecutor::run(const Call& call) {
  const Segment& segment = call.segment;
  Status status = check_call_tokens(program_, call.tokens, segment.rows);
  if (!status.ok()) return status;
  bind(call);
  if (program_.keeps()) {
    session_->return_to(number_, segment.cache, static_cast<size_t>(segment.start_pos));
  }
  session_->team().run([&](size_t thread) { run_on(thread, call); });
  if (program_.keeps()) {
    session_->set_written(number_, segment.cache, static_cast<size_t>(segment.start_pos),
                          segment.rows);
  }
  return {};
}

void CpuExecutor::run_on(size_t thread, const Call& call) {
  ThreadTeam& team = session_->team();
  const Segment& segment = call.segment;
  OpContext context{program_,
                    kernels_,
                    weights_,
                    floats_,
                    workspace_,
                    slots_,
                    team,
                    session_->caches(number_, segment.cache),
                    call.tokens,
                    static_cast<size_t>(segment.start_pos),
                    adapter_of(call),
                    thread,
                    {0, 0},
                    OpTimer(thread == 0 ? call.tracer : nullptr)};
  // Chunks of the same size, in complete tiles except the last.
  const size_t most = workspace_.chunk_rows();
  const size_t chunks = (segment.rows + most - 1) / most;
  const size_t even = kernels::round_up((segment.rows + chunks - 1) / chunks, kernels_.tile.mr);
  const size_t rows = std::min(even, most);
  for (size_t first = 0; first < segment.rows; first += rows) {
    context.chunk = {first, std::min(rows, segment.rows - first)};
    take_inputs(call, context);
    const bool is_last = first + rows >= segment.rows;
    for (const Op& op : program_.ops) {
      const std::optional<OpRows> op_rows = rows_of(op, context.chunk, is_last);
      if (!op_rows.has_value()) continue;
      const Work work =
          std::visit([&](const auto& kind) { return kind.run(op, *op_rows, context); }, op.kind);
      team.barrier();
      context.timer.end(work);
      show_output(call, op, *op_rows, context);
    }
    give_outputs(call, context);
  }
}

}  // namespace thimble::cpu
