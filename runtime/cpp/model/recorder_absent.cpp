/// Replaces recorder.cpp if ExecuTorch was built without ETDump.

#include "model/recorder.h"

namespace thimble {

std::string describe(const Recording&, const std::string& path) { return path; }

class Recorder::Tracer {};

Recorder::Recorder() = default;

Recorder::~Recorder() = default;

executorch::runtime::EventTracer* Recorder::tracer() const { return nullptr; }

Status Recorder::start(const RecordingBounds&) {
  return Status::error(
      "this runner was built without ETDump and cannot record a profile: leave out --etdump, or "
      "build "
      "it on an ExecuTorch that has etdump");
}

Result<Recording> Recorder::stop(const std::string&) {
  return Status::error("no recording is running: this runner was built without ETDump");
}

void Recorder::note(const std::string&, const std::string&) {}

bool Recorder::is_recording() const { return false; }

void Recorder::begin_call(const char*, int64_t, const std::string&) {}

void Recorder::end_call() {}

}  // namespace thimble
