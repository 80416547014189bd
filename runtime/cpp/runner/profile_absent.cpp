/// In place of profile.cpp where ExecuTorch was built without ETDump.

#include <utility>

#include "runner/profile.h"

namespace thimble {

class Profile::Recorder {};

Result<std::unique_ptr<Profile>> Profile::start() {
  return Status::error(
      "this runner was built without ETDump and records no profile: leave out --etdump, or build "
      "it on an ExecuTorch that has etdump");
}

Profile::Profile(std::unique_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}

Profile::~Profile() = default;

executorch::runtime::EventTracer* Profile::tracer() const { return nullptr; }

size_t Profile::num_calls() const { return 0; }

Status Profile::write(const std::string&) { return {}; }

}  // namespace thimble
