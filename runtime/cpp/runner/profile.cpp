#include "runner/profile.h"

#include <executorch/devtools/etdump/etdump_flatcc.h>

#include <cstdlib>
#include <utility>

#include "runner/output_file.h"

namespace thimble {

using executorch::etdump::ETDumpGen;
using executorch::runtime::EventTracerEntry;

class Profile::Recorder final : public ETDumpGen {
 public:
  size_t num_calls() const { return calls_; }

  void create_event_block(const char* name) override {
    ++calls_;
    if (recording()) ETDumpGen::create_event_block(name);
  }

  EventTracerEntry start_profiling(const char* name, executorch::runtime::ChainID chain_id,
                                   executorch::runtime::DebugHandle debug_handle) override {
    if (!recording()) return {};
    return ETDumpGen::start_profiling(name, chain_id, debug_handle);
  }

  void end_profiling(EventTracerEntry entry) override {
    if (recording()) ETDumpGen::end_profiling(entry);
  }

  EventTracerEntry start_profiling_delegate(
      const char* name, executorch::runtime::DelegateDebugIntId delegate_debug_index) override {
    if (!recording()) return {};
    return ETDumpGen::start_profiling_delegate(name, delegate_debug_index);
  }

  void end_profiling_delegate(EventTracerEntry entry, const void* metadata,
                              size_t metadata_len) override {
    if (recording()) ETDumpGen::end_profiling_delegate(entry, metadata, metadata_len);
  }

  void log_profiling_delegate(const char* name,
                              executorch::runtime::DelegateDebugIntId delegate_debug_index,
                              et_timestamp_t start_time, et_timestamp_t end_time,
                              const void* metadata, size_t metadata_len) override {
    if (!recording()) return;
    ETDumpGen::log_profiling_delegate(name, delegate_debug_index, start_time, end_time, metadata,
                                      metadata_len);
  }

  void track_allocation(executorch::runtime::AllocatorID id, size_t size) override {
    if (recording()) ETDumpGen::track_allocation(id, size);
  }

 private:
  bool recording() const { return calls_ <= kMaxCalls; }

  size_t calls_ = 0;
};

Result<std::unique_ptr<Profile>> Profile::start() {
  return std::unique_ptr<Profile>(new Profile(std::make_unique<Recorder>()));
}

Profile::Profile(std::unique_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}

Profile::~Profile() = default;

executorch::runtime::EventTracer* Profile::tracer() const { return recorder_.get(); }

size_t Profile::num_calls() const { return recorder_->num_calls(); }

Status Profile::write(const std::string& path) {
  const executorch::etdump::ETDumpResult dump = recorder_->get_etdump_data();
  if (dump.buf == nullptr || dump.size == 0) {
    return Status::error("cannot write " + path + ": the run recorded no event");
  }
  Status status = write_file(path, {{static_cast<const char*>(dump.buf), dump.size}});
  std::free(dump.buf);
  return status;
}

}  // namespace thimble
