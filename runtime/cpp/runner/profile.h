#pragma once

#include <executorch/devtools/etdump/etdump_flatcc.h>

#include <cstddef>
#include <string>

#include "core/status.h"

namespace thimble {

/// Records an ETDump in memory. An ETDump grows by every event of every call, so only the first
/// kMaxCalls calls are kept; a profile needs no more, and memory stays bounded.
class Profile final : public executorch::etdump::ETDumpGen {
 public:
  static constexpr size_t kMaxCalls = 256;

  /// Calls of the model that were not recorded, so far.
  size_t num_dropped_calls() const { return calls_ > kMaxCalls ? calls_ - kMaxCalls : 0; }
  size_t num_calls() const { return calls_; }

  /// Writes the ETDump; nothing can be recorded after it.
  Status write(const std::string& path);

  void create_event_block(const char* name) override;
  executorch::runtime::EventTracerEntry start_profiling(
      const char* name, executorch::runtime::ChainID chain_id,
      executorch::runtime::DebugHandle debug_handle) override;
  void end_profiling(executorch::runtime::EventTracerEntry entry) override;
  executorch::runtime::EventTracerEntry start_profiling_delegate(
      const char* name, executorch::runtime::DelegateDebugIntId delegate_debug_index) override;
  void end_profiling_delegate(executorch::runtime::EventTracerEntry entry, const void* metadata,
                              size_t metadata_len) override;
  void log_profiling_delegate(const char* name,
                              executorch::runtime::DelegateDebugIntId delegate_debug_index,
                              et_timestamp_t start_time, et_timestamp_t end_time,
                              const void* metadata, size_t metadata_len) override;
  void track_allocation(executorch::runtime::AllocatorID id, size_t size) override;

 private:
  bool recording() const { return calls_ <= kMaxCalls; }

  size_t calls_ = 0;
};

}  // namespace thimble
