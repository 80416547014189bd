#include "delegate/metal/executor.h"

#include <executorch/runtime/core/event_tracer.h>

#include <cstring>

#include "delegate/program/call_check.h"

namespace thimble::metal {
namespace {

/// That of a program's caches: programs are made for the CPU delegate, which multiplies int8 too.
kernels::CacheType supported(kernels::CacheType of_program) {
  return of_program == kernels::CacheType::kInt8 ? kernels::CacheType::kFloat16 : of_program;
}

}  // namespace

Result<std::unique_ptr<MetalExecutor>> MetalExecutor::create(
    cpu::Program program, const std::vector<kernels::PackedWeight>& weights, const float* floats,
    std::shared_ptr<cpu::Session> session, std::unique_ptr<Device> device) {
  auto kept = std::make_unique<cpu::Program>(std::move(program));
  Result<Plan> plan = Plan::create(*kept, session->cache_type(supported(kept->cache_type)));
  if (!plan.ok()) return plan.status();
  const Result<uint32_t> number = session->add_program(kept->checksum, plan->named_caches());
  if (!number.ok()) return number.status();
  std::unique_ptr<MetalExecutor> executor(new MetalExecutor(
      std::move(kept), std::move(*plan), std::move(session), std::move(device), *number));
  uint8_t* tokens = nullptr;
  const size_t token_bytes = executor->plan_.most_tokens() * sizeof(int32_t);
  Status status =
      executor->bind_own(Plan::kArena, executor->plan_.arena_bytes(), &executor->arena_);
  if (status.ok()) status = executor->bind_own(Plan::kTokens, token_bytes, &tokens);
  if (status.ok()) status = executor->bind_weights(weights, floats);
  if (!status.ok()) return status;
  executor->tokens_ = reinterpret_cast<int32_t*>(tokens);
  return executor;
}

MetalExecutor::~MetalExecutor() { session_->remove_program(number_); }

std::string MetalExecutor::describe() const {
  return device_->name() + ", " + cpu::cache_type_name(plan_.caches().front().type) + " cache of " +
         std::to_string(plan_.most_tokens()) + " positions, " +
         std::to_string(copied_bytes_ >> 20) + " MB of weights copied";
}

Status MetalExecutor::bind_own(uint32_t buffer, size_t bytes, uint8_t** data) {
  pages_.push_back(platform::Pages::allocate(bytes, platform::Pages::Kind::kSmall));
  if (!pages_.back().valid()) {
    return Status::error("the Metal delegate's " + std::to_string(bytes) +
                         " bytes do not fit into memory: free some");
  }
  *data = pages_.back().data();
  return device_->bind(buffer, *data, bytes);
}

Status MetalExecutor::bind_constant(uint32_t buffer, const void* data, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(data) % platform::page_size() == 0) {
    return device_->bind(buffer, const_cast<void*>(data), bytes);
  }
  uint8_t* copy = nullptr;
  Status status = bind_own(buffer, bytes, &copy);
  if (status.ok()) std::memcpy(copy, data, bytes);
  copied_bytes_ += bytes;
  return status;
}

Status MetalExecutor::bind_weights(const std::vector<kernels::PackedWeight>& weights,
                                   const float* floats) {
  Status status;
  for (size_t i = 0; status.ok() && i < weights.size(); ++i) {
    status = bind_constant(plan_.weight(i), weights[i].data, weights[i].bytes());
  }
  if (status.ok() && program_->num_floats > 0) {
    status = bind_constant(Plan::kFloats, floats, program_->num_floats * sizeof(float));
  }
  return status;
}

Status MetalExecutor::bind_caches(int32_t number) {
  if (bound_cache_ == number) return {};
  const std::vector<cpu::KvCache*>& caches = session_->caches(number_, number).kv;
  for (size_t i = 0; i < caches.size(); ++i) {
    Status status =
        device_->bind(plan_.cache(i), caches[i]->keys(0), caches[i]->geometry().bytes());
    if (!status.ok()) return status;
  }
  bound_cache_ = number;
  return {};
}

Status MetalExecutor::check(const cpu::Call& call) const {
  const Status status = cpu::check_one_segment(call);
  if (!status.ok()) return status;
  const cpu::Segment& segment = call.segments.front();
  const auto start = static_cast<size_t>(segment.start_pos);
  Status rows = cpu::check_call_rows(*program_, session_->length(segment.cache), segment);
  return rows.ok() ? session_->check_start(number_, segment.cache, start) : rows;
}

Status MetalExecutor::run(const cpu::Call& call) {
  const cpu::Segment& segment = call.segments.front();
  Status status = cpu::check_call_tokens(*program_, call.tokens, segment.rows);
  if (status.ok()) status = bind_caches(segment.cache);
  if (!status.ok()) return status;
  for (size_t i = 0; i < segment.rows; ++i) tokens_[i] = static_cast<int32_t>(call.tokens[i]);
  plan_.write(segment.rows, static_cast<size_t>(segment.start_pos), &dispatches_);
  status = call.tracer != nullptr ? run_traced(call.tracer)
                                  : device_->run(dispatches_.data(), dispatches_.size());
  if (!status.ok()) return status;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const size_t width = program_->slots[program_->outputs[i].slot].width;
    std::memcpy(call.outputs[i], arena_ + plan_.output_at(i), width * sizeof(float));
  }
  const auto start = static_cast<size_t>(segment.start_pos);
  session_->set_written(number_, segment.cache, start, segment.rows);
  return {};
}

Status MetalExecutor::run_traced(executorch::runtime::EventTracer* tracer) {
  for (size_t first = 0, last = 0; first < dispatches_.size(); first = last) {
    const uint32_t id = dispatches_[first].debug_id;
    while (last < dispatches_.size() && dispatches_[last].debug_id == id) ++last;
    const auto entry = tracer->start_profiling_delegate(nullptr, id);
    Status status = device_->run(dispatches_.data() + first, last - first);
    tracer->end_profiling_delegate(entry, nullptr, 0);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace thimble::metal
