#include "delegate/cpu/executor.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "delegate/ops/context.h"
#include "delegate/program/call_check.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

/// Rows of a slot for each row of a call: of a program by sample, for each sample.
size_t rows_each(uint32_t slot, const OpContext& context) {
  return context.program.by_sample ? context.program.slots[slot].height : 1;
}

/// Copies the caller's rows into slots that are not the caller's own memory.
void take_inputs(const Call& call, OpContext& context) {
  bool any = false;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const uint32_t slot = context.program.inputs[i].slot;
    if (call.inputs[i] == nullptr || context.workspace.is_bound(slot)) continue;
    any = true;
    const size_t width = context.width(slot), each = rows_each(slot, context);
    const Range part = share(context.chunk.rows * each, context.thread, context.threads());
    for (size_t row = part.first; row < part.last; ++row) {
      std::copy_n(call.inputs[i] + (context.chunk.first * each + row) * width, width,
                  context.row(slot, row));
    }
  }
  if (any) context.team.barrier();
}

/// Copies outputs out of slots that are not the caller's own memory.
void give_outputs(const Call& call, OpContext& context) {
  bool any = false;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const uint32_t slot = context.program.outputs[i].slot;
    if (context.slots[slot] == call.outputs[i]) continue;
    any = true;
    const size_t width = context.width(slot), each = rows_each(slot, context);
    if (!context.program.by_sample && !context.program.slots[slot].has_all_rows()) continue;
    const Range part = share(context.chunk.rows * each, context.thread, context.threads());
    for (size_t row = part.first; row < part.last; ++row) {
      std::copy_n(context.row(slot, row), width,
                  call.outputs[i] + (context.chunk.first * each + row) * width);
    }
  }
  if (any) context.team.barrier();
}

/// The rows of a segment, counted in the call, that are in a chunk, counted there.
Piece piece_of(const Piece& segment, const Chunk& chunk) {
  const size_t first = std::max(segment.first, chunk.first);
  const size_t last = std::min(segment.first + segment.rows, chunk.first + chunk.rows);
  if (first >= last) return {};
  Piece piece = segment;
  piece.first = first - chunk.first;
  piece.rows = last - first;
  piece.position += first - segment.first;
  if (piece.positions != nullptr) piece.positions += (first - segment.first) * piece.pairs;
  if (piece.ends != nullptr) piece.ends += first - segment.first;
  return piece;
}

/// Whether no row of a call before `row` attends to that one or further ones.
bool may_end_at(size_t row, const std::vector<Piece>& segments) {
  const auto found = std::find_if(segments.begin(), segments.end(), [&](const Piece& one) {
    return row > one.first && row < one.first + one.rows;
  });
  if (found == segments.end() || found->ends == nullptr) return true;
  const size_t within = row - found->first;
  return found->ends[within - 1] <= found->position + within;
}

/// How many rows of a chunk from `first` on run together: at most `rows`, or as many as attend to
/// each other.
size_t fitting_rows(size_t first, size_t rows, const std::vector<Piece>& segments) {
  size_t fitting = rows;
  while (fitting > 0 && !may_end_at(first + fitting, segments)) --fitting;
  if (fitting > 0) return fitting;
  while (!may_end_at(first + rows, segments)) ++rows;
  return rows;
}

/// Those of a chunk's rows that are in a piece, counted there.
OpRows rows_in(OpRows rows, const Piece& piece) {
  const size_t first = std::max(rows.first, piece.first);
  const size_t last = std::min(rows.first + rows.count, piece.first + piece.rows);
  return first < last ? OpRows{first - piece.first, last - first} : OpRows{0, 0};
}

/// Passes the rows that an op has just computed to the call's listener.
void show_output(const Call& call, const Op& op, OpRows rows, OpContext& context) {
  if (call.listener == nullptr) return;
  if (context.thread == 0 && rows.count > 0) {
    const uint32_t slot = std::visit([](const auto& kind) { return kind.output; }, op.kind);
    const size_t height = context.program.slots[slot].height;
    if (height > 0) rows = {0, context.chunk.segments.size() * height};
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
  std::vector<NamedGeometry> geometries;
  for (const CacheShape& cache : program.caches) {
    const size_t capacity = cache.rows > 0 ? cache.rows : cache.max_context_len;
    geometries.push_back(
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
  const Result<uint32_t> number =
      session->add_program(program.checksum, geometries, names, states, program.original);
  if (!number.ok()) return number.status();
  return std::unique_ptr<CpuExecutor>(
      new CpuExecutor(std::move(program), kernels, std::move(weights), floats, std::move(adapters),
                      std::move(session), std::move(*workspace), type, *number));
}

CpuExecutor::~CpuExecutor() { session_->remove_program(number_); }

Status CpuExecutor::fit(const Call& call) {
  if (whole_.shorter.empty()) return {};
  bool same = true, whole = true;
  for (size_t i = 0; i < whole_.inputs.size(); ++i) {
    if (whole_.inputs[i].role != Role::kRows) continue;
    const uint32_t slot = whole_.inputs[i].slot;
    same = same && program_->slots[slot].height == call.heights[i];
    whole = whole && whole_.slots[slot].height == call.heights[i];
  }
  if (same) return {};
  program_ = &whole_;
  if (whole) return {};
  Result<Program> shorter = shortened(whole_, call.heights);
  if (!shorter.ok()) return shorter.status();
  shortened_ = std::move(*shorter);
  program_ = &shortened_;
  return {};
}

Status CpuExecutor::check(const Call& call) const {
  for (const Segment& segment : call.segments) {
    const int32_t cache = segment.cache;
    Status status = check_call_rows(*program_, session_->length(cache), segment);
    if (status.ok() && program_->keeps()) {
      status = session_->check_start(number_, cache, static_cast<size_t>(segment.start_pos));
    }
    if (status.ok() && program_->original > 0) status = session_->check_table(segment);
    for (const CacheShape& shape : program_->caches) {
      if (!status.ok() || segment.together() <= shape.most_rows()) continue;
      status = Status::error(std::to_string(segment.together()) +
                             " rows attend to each other, but a sliding window's cache takes " +
                             std::to_string(shape.most_rows()) +
                             " at a time: export with a larger --max-seq-len");
    }
    if (!status.ok()) return status;
    if (session_->adapter_of(number_, cache) == adapter_of(call).index) continue;
    return Status::error(
        "the caches of the call's segments have different adapters: make a call for each adapter");
  }
  return {};
}

void CpuExecutor::bind(const Call& call) {
  for (size_t slot = 0; slot < slots_.size(); ++slot) slots_[slot] = workspace_.slot(slot);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const uint32_t slot = program_->inputs[i].slot;
    if (call.inputs[i] == nullptr || !workspace_.is_bound(slot)) continue;
    slots_[slot] = const_cast<float*>(call.inputs[i]);  // which no op writes to
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const uint32_t slot = program_->outputs[i].slot;
    if (slots_[slot] != nullptr) continue;
    slots_[slot] = call.logits != nullptr ? call.logits : call.outputs[i];
  }
}

CallAdapter CpuExecutor::adapter_of(const Call& call) const {
  const int32_t index = session_->adapter_of(number_, call.segments.front().cache);
  return {index, index < 0 ? nullptr : adapters_[static_cast<size_t>(index)]};
}

Status CpuExecutor::grow(const Call& call) {
  size_t together = 1;
  for (const Segment& segment : call.segments) together = std::max(together, segment.together());
  if (together <= workspace_.chunk_rows()) return {};
  Result<Workspace> larger = Workspace::plan(whole_, kernels_, session_->team().size(), together);
  if (!larger.ok()) return larger.status();
  workspace_ = std::move(*larger);
  return {};
}

Status CpuExecutor::run(const Call& call) {
  const Result<Range> last = find_last_rows(call.segments);
  if (!last.ok()) return last.status();
  Status status = check_call_tokens(*program_, call.tokens, program_->tokens_of(call.rows));
  if (status.ok()) status = grow(call);
  if (!status.ok()) return status;
  bind(call);
  segments_.clear();
  size_t first = 0;
  for (const Segment& segment : call.segments) {
    const auto start_pos = static_cast<size_t>(segment.start_pos);
    if (program_->keeps()) session_->return_to(number_, segment.cache, start_pos);
    const bool is_long = program_->original > 0 && session_->choose_table(segment);
    segments_.push_back({first, segment.rows, start_pos, &session_->caches(number_, segment.cache),
                         segments_.size(), is_long,
                         segment.positions.empty() ? nullptr : segment.positions.data(),
                         segment.pairs, segment.ends.empty() ? nullptr : segment.ends.data()});
    first += segment.rows;
  }
  session_->team().run([&](size_t thread) { run_on(thread, call, *last); });
  for (const Segment& segment : call.segments) {
    if (!program_->keeps()) break;
    session_->set_written(number_, segment.cache, static_cast<size_t>(segment.start_pos),
                          segment.rows);
  }
  give_last(call, last->size());
  return {};
}

void CpuExecutor::give_last(const Call& call, size_t count) const {
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Value& value = program_->outputs[i];
    const Slot& slot = program_->slots[value.slot];
    const size_t rows = slot.is_per_segment() ? call.segments.size() : count;
    if (program_->by_sample || slot.has_all_rows() || rows == 0 ||
        slots_[value.slot] == call.outputs[i])
      continue;
    std::copy_n(slots_[value.slot] + (rows - 1) * slot.width, slot.width, call.outputs[i]);
  }
}

void CpuExecutor::run_on(size_t thread, const Call& call, Range last) {
  OpContext context{*program_,
                    kernels_,
                    weights_,
                    floats_,
                    workspace_,
                    slots_,
                    session_->team(),
                    call.tokens,
                    adapter_of(call),
                    thread,
                    segments_,
                    {},
                    {},
                    OpTimer(thread == 0 ? call.tracer : nullptr)};
  if (program_->needs_segments) return run_segments(call, context);
  // Chunks of the same size, in complete tiles except the last.
  const size_t most = workspace_.chunk_rows();
  const size_t chunks = (call.rows + most - 1) / most;
  const size_t even = kernels::round_up((call.rows + chunks - 1) / chunks, kernels_.tile.mr);
  const size_t rows = std::min(even, most);
  for (size_t first = 0, count; first < call.rows; first += count) {
    count = fitting_rows(first, std::min(rows, call.rows - first), segments_);
    run_chunk(call, chunk_of(first, count, last), context);
  }
}

void CpuExecutor::run_segments(const Call& call, OpContext& context) const {
  for (size_t first = 0, next; first < segments_.size(); first = next) {
    size_t rows = segments_[first].rows;
    const size_t most = std::min(segments_.size(), first + workspace_.chunk_segments());
    for (next = first + 1; next < most; ++next) {
      if (rows + segments_[next].rows > workspace_.chunk_rows()) break;
      rows += segments_[next].rows;
    }
    run_chunk(call, {segments_[first].first, rows, {0, 0}, 0, {first, next}}, context);
  }
}

void CpuExecutor::run_chunk(const Call& call, const Chunk& chunk, OpContext& context) const {
  context.chunk = chunk;
  context.piece = {0, chunk.rows, 0, nullptr};
  take_inputs(call, context);
  for (const Op& op : program_->ops) {
    const std::optional<OpRows> op_rows = rows_of(op, chunk);
    if (!op_rows.has_value()) continue;
    run_op(op, *op_rows, context);
    show_output(call, op, *op_rows, context);
  }
  give_outputs(call, context);
}

void CpuExecutor::run_op(const Op& op, OpRows rows, OpContext& context) const {
  std::visit(
      [&](const auto& kind) {
        const auto run = [&](OpRows some) {
          const Work work = kind.run(op, some, context);
          context.team.barrier();
          context.timer.end(work);
        };
        if constexpr (!std::decay_t<decltype(kind)>::kPerSegment) {
          run(rows);
        } else {
          const Piece whole = context.piece;
          for (const Piece& segment : segments_) {
            context.piece = piece_of(segment, context.chunk);
            if (context.piece.rows == 0) continue;
            const OpRows some =
                program_->by_sample ? OpRows{0, op.height} : rows_in(rows, context.piece);
            if (some.count > 0 || op.runs_for_all) run(some);
          }
          context.piece = whole;
        }
      },
      op.kind);
}

}  // namespace thimble::cpu
