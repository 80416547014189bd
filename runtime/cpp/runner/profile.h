#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstddef>
#include <memory>
#include <string>

#include "core/status.h"

namespace thimble {

/// Records an ETDump in memory. An ETDump grows by every event of every call, so only the first
/// kMaxCalls calls are kept; a profile needs no more, and memory stays bounded.
class Profile {
 public:
  static constexpr size_t kMaxCalls = 256;

  /// The error says that this runner was built without ETDump.
  static Result<std::unique_ptr<Profile>> start();
  ~Profile();

  /// What ExecuTorch is given to record into.
  executorch::runtime::EventTracer* tracer() const;

  /// Calls of the model so far, and those of them that were not recorded.
  size_t num_calls() const;
  size_t num_dropped_calls() const { return num_calls() > kMaxCalls ? num_calls() - kMaxCalls : 0; }

  /// Writes the ETDump; nothing can be recorded after it.
  Status write(const std::string& path);

 private:
  class Recorder;
  explicit Profile(std::unique_ptr<Recorder> recorder);

  std::unique_ptr<Recorder> recorder_;
};

}  // namespace thimble
