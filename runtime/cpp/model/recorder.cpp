#include "model/recorder.h"

#include <executorch/devtools/etdump/etdump_flatcc.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "platform/output_file.h"
#include "platform/processors.h"
#include "tokenizer/utf8.h"

namespace thimble {

using executorch::etdump::ETDumpGen;
using executorch::etdump::ETDumpResult;
using executorch::runtime::AllocatorID;
using executorch::runtime::ArrayRef;
using executorch::runtime::ChainID;
using executorch::runtime::DebugHandle;
using executorch::runtime::DelegateDebugIntId;
using executorch::runtime::EValue;
using executorch::runtime::EventTracerEntry;
using executorch::runtime::EventTracerFilterBase;
using executorch::runtime::EventTracerProfilingLevel;
using executorch::runtime::LoggedEValueType;
using Tensor = executorch::aten::Tensor;

namespace {

/// An event in an ETDump without its name and metadata: two tables, their place in the vector of
/// events, and the lengths and the padding of two strings.
constexpr size_t kEventBytes = 64;
constexpr size_t kFactBytes = 1024;

/// Now, as 2024-12-31T23:59:59Z.
std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  struct tm date{};
  char text[32] = "";
  if (gmtime_r(&now, &date) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &date);
  }
  return text;
}

}  // namespace

std::string describe(const Recording& recording, const std::string& path) {
  const int64_t all = recording.calls + recording.dropped_calls;
  const bool whole = recording.dropped_calls == 0;
  return path + " holds " + (whole ? "" : "the first ") + std::to_string(recording.calls) +
         (whole ? "" : " of " + std::to_string(all)) +
         (all == 1 ? " call of the model" : " calls of the model");
}

/// Forwards events of ExecuTorch and its delegates to an ETDump while recording. ExecuTorch keeps
/// the address of a tracer from the load on, so this object stays and the ETDump changes.
class Recorder::Tracer final : public executorch::runtime::EventTracer {
 public:
  using ProgressResult = executorch::runtime::Result<bool>;

  Tracer() { listen(false); }

  void open() { dump_ = std::make_unique<ETDumpGen>(); }
  std::unique_ptr<ETDumpGen> close() {
    listen(false);
    bytes_ = 0;
    block_.clear();
    return std::move(dump_);
  }

  /// Sets whether events are recorded. The level tells delegates, which then need not report them.
  void listen(bool on) {
    listening_ = on;
    set_event_tracer_profiling_level(on ? EventTracerProfilingLevel::kProfileAllEvents
                                        : EventTracerProfilingLevel::kProfileMethodOnly);
  }

  size_t bytes() const { return bytes_; }

  /// Sets the name of the next block, which replaces ExecuTorch's.
  void name_block(const std::string& name) { block_ = name; }

  void create_event_block(const char* name) override {
    if (!listening_) return;
    const char* known = block_.empty() ? name : block_.c_str();
    dump(known, 0).create_event_block(known);
  }
  EventTracerEntry start_profiling(const char* name, ChainID chain_id,
                                   DebugHandle debug_handle) override {
    if (!listening_) return {};
    return dump(name, 0).start_profiling(name, chain_id, debug_handle);
  }
  void end_profiling(EventTracerEntry entry) override {
    if (listening_) dump_->end_profiling(entry);
  }
  EventTracerEntry start_profiling_delegate(const char* name, DelegateDebugIntId id) override {
    if (!listening_) return {};
    return dump(name, 0).start_profiling_delegate(name, id);
  }
  void end_profiling_delegate(EventTracerEntry entry, const void* metadata, size_t size) override {
    if (!listening_) return;
    bytes_ += size;
    dump_->end_profiling_delegate(entry, metadata, size);
  }
  void log_profiling_delegate(const char* name, DelegateDebugIntId id, et_timestamp_t start,
                              et_timestamp_t end, const void* metadata, size_t size) override {
    if (listening_) dump(name, size).log_profiling_delegate(name, id, start, end, metadata, size);
  }
  void track_allocation(AllocatorID id, size_t size) override {
    if (listening_) dump(nullptr, 0).track_allocation(id, size);
  }
  AllocatorID track_allocator(const char* name) override {
    return listening_ ? dump(name, 0).track_allocator(name) : 0;
  }

  // Values are never logged: the level of logging stays at none.
  ProgressResult log_evalue(const EValue&, LoggedEValueType) override { return false; }
  ProgressResult log_intermediate_output_delegate(const char*, DelegateDebugIntId,
                                                  const Tensor&) override {
    return false;
  }
  ProgressResult log_intermediate_output_delegate(const char*, DelegateDebugIntId,
                                                  const ArrayRef<Tensor>) override {
    return false;
  }
  ProgressResult log_intermediate_output_delegate(const char*, DelegateDebugIntId,
                                                  const int&) override {
    return false;
  }
  ProgressResult log_intermediate_output_delegate(const char*, DelegateDebugIntId,
                                                  const bool&) override {
    return false;
  }
  ProgressResult log_intermediate_output_delegate(const char*, DelegateDebugIntId,
                                                  const double&) override {
    return false;
  }
  void set_delegation_intermediate_output_filter(EventTracerFilterBase*) override {}

 private:
  /// The ETDump, about to take an event, which belongs to the instruction that this one was told.
  ETDumpGen& dump(const char* name, size_t metadata) {
    bytes_ += kEventBytes + metadata + (name != nullptr ? std::strlen(name) : 0);
    dump_->set_chain_debug_handle(current_chain_id(), current_debug_handle());
    return *dump_;
  }

  std::unique_ptr<ETDumpGen> dump_;
  bool listening_ = false;
  std::string block_;
  size_t bytes_ = 0;
};

/// Called between calls, with the mutex held.
class Recorder::Pause {
 public:
  explicit Pause(Recorder& recorder) : recorder_(recorder), lock_(recorder.mutex_) {
    ++recorder_.waiting_;
    recorder_.changed_.wait(lock_, [this] { return !recorder_.in_call_; });
    --recorder_.waiting_;
  }
  ~Pause() {
    lock_.unlock();
    recorder_.changed_.notify_all();
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  Recorder& recorder_;
  std::unique_lock<platform::Mutex> lock_;
};

Recorder::Recorder() : tracer_(std::make_unique<Tracer>()) {}

Recorder::~Recorder() = default;

executorch::runtime::EventTracer* Recorder::tracer() const { return tracer_.get(); }

Status Recorder::start(const RecordingBounds& bounds) {
  const Pause pause(*this);
  if (recording_) return Status::error("a recording is already running: stop it first");
  recording_ = true;
  bounds_ = bounds;
  recorded_ = {};
  facts_["processor"] = platform::processor_name();
  facts_["date"] = utc_date();
  tracer_->open();
  tracer_->listen(true);
  return {};
}

Result<Recording> Recorder::stop(const std::string& path) {
  Status status = platform::check_writable(path);
  if (!status.ok()) return status;
  std::unique_ptr<ETDumpGen> dump;
  Recording recorded;
  std::map<std::string, std::string> facts;
  {
    const Pause pause(*this);
    if (!recording_) return Status::error("no recording is running: start one first");
    recording_ = false;
    recorded = recorded_;
    facts = facts_;
    dump = tracer_->close();
  }
  if (recorded.calls == 0) {
    return Status::error("cannot write " + path + ": the model was not called since the start");
  }
  for (const auto& [key, value] : facts) {
    dump->create_event_block(("fact " + key + " " + value).c_str());
  }
  if (recorded.dropped_calls > 0) {
    dump->create_event_block(("dropped " + std::to_string(recorded.dropped_calls)).c_str());
  }
  const ETDumpResult result = dump->get_etdump_data();
  if (result.buf == nullptr) return Status::error("cannot write " + path + ": not enough memory");
  status = platform::write_file(path, {{static_cast<const char*>(result.buf), result.size}});
  std::free(result.buf);
  if (!status.ok()) return status;
  return recorded;
}

void Recorder::note(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  facts_[key] = with_valid_utf8(value.substr(0, kFactBytes));
}

bool Recorder::is_recording() const {
  const std::lock_guard lock(mutex_);
  return recording_;
}

void Recorder::begin_call(const char* phase, int64_t tokens, const std::string& method) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_ == 0; });
  in_call_ = true;
  last_call_ = Fate::kUnrecorded;
  if (!recording_) return;
  const bool room = recorded_.dropped_calls == 0 && recorded_.calls < bounds_.max_calls &&
                    static_cast<int64_t>(tracer_->bytes()) < bounds_.max_bytes;
  last_call_ = room ? Fate::kRecorded : Fate::kDropped;
  ++(room ? recorded_.calls : recorded_.dropped_calls);
  tracer_->listen(room);
  if (!room) return;
  tracer_->name_block(std::string(phase) + " " + std::to_string(tokens) +
                      (method == "forward" ? "" : " " + method));
}

void Recorder::end_call() {
  {
    const std::lock_guard lock(mutex_);
    in_call_ = false;
    if (waiting_ == 0) return;
  }
  changed_.notify_all();
}

}  // namespace thimble
