#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "core/status.h"
#include "runner/recorder.h"

namespace thimble {

/// Keeps SIGUSR1 from the calling thread and those it starts afterwards, so that it waits for a
/// RecordingSignal. Before any thread is started.
void block_recording_signal();

/// Starts and ends recordings of a running program: each SIGUSR1 does the one or the other, on a
/// thread of its own, and says so on standard error.
class RecordingSignal {
 public:
  /// The first recording goes to `path`, those after it to path.2, path.3, ...; empty:
  /// runner-PID.etdp in the current directory.
  RecordingSignal(Recorder& recorder, std::string path);
  ~RecordingSignal();
  RecordingSignal(const RecordingSignal&) = delete;
  RecordingSignal& operator=(const RecordingSignal&) = delete;

  /// Listens no longer, and writes a recording that still goes on.
  Status finish();

 private:
  void listen();
  void toggle();
  Status write();
  std::string next_path() const;
  void end_listening();

  Recorder& recorder_;
  const std::string path_;
  int written_ = 0;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace thimble
