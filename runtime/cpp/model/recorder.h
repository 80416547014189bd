#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/status.h"
#include "platform/threads.h"

namespace executorch::runtime {
class EventTracer;
}

namespace thimble {

/// The limits of a recording; the defaults are enough for any model. Both are checked before each
/// call of the model. A call is recorded completely or not at all, so the last one may exceed the
/// bytes. The first calls are kept.
struct RecordingBounds {
  int64_t max_calls = 256;
  int64_t max_bytes = int64_t{32} << 20;  ///< of the profile, estimated from its events
};

/// The result of a recording.
struct Recording {
  int64_t calls = 0;          ///< of the model, from the first one after the start
  int64_t dropped_calls = 0;  ///< later calls, which did not fit the limits
};

/// Such as "run.etdp holds 12 calls of the model", with the number of dropped ones.
std::string describe(const Recording& recording, const std::string& path);

/// Records ExecuTorch's profile (an ETDump) of a program's calls. start() and stop() may be called
/// from any thread, and wait for the end of a running call. While it does not record, ExecuTorch
/// and its delegates report no events, and it uses no memory.
class Recorder {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The tracer to load the program with; null if this was built without ETDump.
  executorch::runtime::EventTracer* tracer() const;

  /// Fails if it already records, or was built without ETDump.
  Status start(const RecordingBounds& bounds);

  /// Ends a recording and writes it to a file, completely or not at all. If the path is refused,
  /// the recording continues. An empty block "fact KEY VALUE" for each fact follows the calls, and
  /// an empty last one, "dropped N", counts what was left out.
  Result<Recording> stop(const std::string& path);

  /// Sets a fact about the run for every recording from now on: the last value of a key counts, up
  /// to its first 1024 bytes. start() adds the date and the processor.
  void note(const std::string& key, const std::string& value);

  bool is_recording() const;

  /// What happens to a call.
  enum class Fate { kUnrecorded, kRecorded, kDropped };

  /// A call of the program over some tokens, during this object's lifetime; one at a time. It
  /// becomes a block of events, named by its phase and its tokens, and by its method unless that is
  /// "forward": "prefill 12", "decode 1", "run 1 encode".
  class Call {
   public:
    Call(Recorder& recorder, const char* phase, int64_t tokens,
         const std::string& method = "forward")
        : recorder_(recorder) {
      recorder_.begin_call(phase, tokens, method);
    }
    ~Call() { recorder_.end_call(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Recorder& recorder_;
  };

  /// Of the last call, to the thread that made it.
  Fate last_call() const { return last_call_; }

 private:
  class Tracer;
  class Pause;

  void begin_call(const char* phase, int64_t tokens, const std::string& method);
  void end_call();

  mutable platform::Mutex mutex_;
  platform::ConditionVariable changed_;
  bool in_call_ = false;
  int waiting_ = 0;  ///< of start() and stop(): calls begin behind them
  bool recording_ = false;
  RecordingBounds bounds_;
  Recording recorded_;
  std::map<std::string, std::string> facts_;
  Fate last_call_ = Fate::kUnrecorded;
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace thimble
