#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <string>

#include "value_trace/thimble_watch.h"

namespace thimble {

/// Passes the float32 values of a running program to a callback, one by one, and keeps none.
class ValueTracer final : public executorch::runtime::EventTracer {
 public:
  using AllocatorID = executorch::runtime::AllocatorID;
  using ChainID = executorch::runtime::ChainID;
  using DebugHandle = executorch::runtime::DebugHandle;
  using DelegateId = executorch::runtime::DelegateDebugIntId;
  using Entry = executorch::runtime::EventTracerEntry;
  using EValue = executorch::runtime::EValue;
  using Logged = executorch::runtime::Result<bool>;
  using LoggedType = executorch::runtime::LoggedEValueType;
  using Tensor = executorch::aten::Tensor;
  using Tensors = executorch::runtime::ArrayRef<Tensor>;

  ValueTracer() {
    set_event_tracer_debug_level(
        executorch::runtime::EventTracerDebugLogLevel::kIntermediateOutputs);
    set_event_tracer_profiling_level(
        executorch::runtime::EventTracerProfilingLevel::kProfileMethodOnly);
  }

  /// Sets the receiver of the values; null: there is none.
  void show_to(thimble_value_callback on_value, void* context) {
    on_value_ = on_value;
    context_ = context;
  }

  Logged log_evalue(const EValue& value, LoggedType type) override {
    const bool is_inside = type == LoggedType::kIntermediateOutput;
    return is_inside && value.isTensor() && show(nullptr, value.toTensor());
  }
  Logged log_intermediate_output_delegate(const char* name, DelegateId id,
                                          const Tensor& output) override {
    return show_of_delegate(name, id, output);
  }
  Logged log_intermediate_output_delegate(const char* name, DelegateId id,
                                          const Tensors outputs) override {
    bool shown = false;
    for (const Tensor& output : outputs) shown |= show_of_delegate(name, id, output);
    return shown;
  }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const int&) override {
    return false;
  }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const bool&) override {
    return false;
  }
  Logged log_intermediate_output_delegate(const char*, DelegateId, const double&) override {
    return false;
  }
  void set_delegation_intermediate_output_filter(
      executorch::runtime::EventTracerFilterBase*) override {}

  // Everything else is ignored.
  void create_event_block(const char*) override {}
  Entry start_profiling(const char*, ChainID, DebugHandle) override { return {}; }
  void end_profiling(Entry) override {}
  Entry start_profiling_delegate(const char*, DelegateId) override { return {}; }
  void end_profiling_delegate(Entry, const void*, size_t) override {}
  void log_profiling_delegate(const char*, DelegateId, et_timestamp_t, et_timestamp_t, const void*,
                              size_t) override {}
  void track_allocation(AllocatorID, size_t) override {}
  AllocatorID track_allocator(const char*) override { return 0; }

 private:
  bool show_of_delegate(const char* name, DelegateId id, const Tensor& output) {
    return show(name != nullptr ? name : std::to_string(id).c_str(), output);
  }

  bool show(const char* debug_id, const Tensor& value) {
    const bool is_float = value.scalar_type() == executorch::aten::ScalarType::Float;
    if (on_value_ == nullptr || !is_float || value.numel() == 0) return false;
    on_value_(current_debug_handle(), debug_id, value.const_data_ptr<float>(), value.numel(),
              context_);
    return true;
  }

  thimble_value_callback on_value_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace thimble
