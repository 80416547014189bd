#include "runner/profile.h"

#include <cstdlib>

#include "runner/output_file.h"

namespace thimble {

using executorch::etdump::ETDumpGen;
using executorch::runtime::EventTracerEntry;

Status Profile::write(const std::string& path) {
  const executorch::etdump::ETDumpResult dump = get_etdump_data();
  if (dump.buf == nullptr || dump.size == 0) {
    return Status::error("cannot write " + path + ": the run recorded no event");
  }
  Status status = write_file(path, dump.buf, dump.size);
  std::free(dump.buf);
  return status;
}

void Profile::create_event_block(const char* name) {
  ++calls_;
  if (recording()) ETDumpGen::create_event_block(name);
}

EventTracerEntry Profile::start_profiling(const char* name, executorch::runtime::ChainID chain_id,
                                          executorch::runtime::DebugHandle debug_handle) {
  if (!recording()) return {};
  return ETDumpGen::start_profiling(name, chain_id, debug_handle);
}

void Profile::end_profiling(EventTracerEntry entry) {
  if (recording()) ETDumpGen::end_profiling(entry);
}

EventTracerEntry Profile::start_profiling_delegate(
    const char* name, executorch::runtime::DelegateDebugIntId delegate_debug_index) {
  if (!recording()) return {};
  return ETDumpGen::start_profiling_delegate(name, delegate_debug_index);
}

void Profile::end_profiling_delegate(EventTracerEntry entry, const void* metadata,
                                     size_t metadata_len) {
  if (recording()) ETDumpGen::end_profiling_delegate(entry, metadata, metadata_len);
}

void Profile::log_profiling_delegate(const char* name,
                                     executorch::runtime::DelegateDebugIntId delegate_debug_index,
                                     et_timestamp_t start_time, et_timestamp_t end_time,
                                     const void* metadata, size_t metadata_len) {
  if (!recording()) return;
  ETDumpGen::log_profiling_delegate(name, delegate_debug_index, start_time, end_time, metadata,
                                    metadata_len);
}

void Profile::track_allocation(executorch::runtime::AllocatorID id, size_t size) {
  if (recording()) ETDumpGen::track_allocation(id, size);
}

}  // namespace thimble
