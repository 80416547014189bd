#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "core/status.h"
#include "model/recorder.h"

namespace thimble {

/// Blocks SIGUSR1 in the calling thread and those it starts later, so that a RecordingSignal
/// receives it. Call it before any thread is started.
void block_recording_signal();

/// Starts and ends recordings of a running program: each SIGUSR1 does one or the other, on a
/// separate thread, and reports it on standard error.
class RecordingSignal {
 public:
  /// The first recording is written to `path`, later ones to path.2, path.3, ...; empty:
  /// runner-PID.etdp in the current directory.
  RecordingSignal(Recorder& recorder, std::string path);
  ~RecordingSignal();
  RecordingSignal(const RecordingSignal&) = delete;
  RecordingSignal& operator=(const RecordingSignal&) = delete;

  /// Stops listening, and writes a recording that is still running.
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
