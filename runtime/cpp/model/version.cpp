#include "model/version.h"

#include "delegate/session/session.h"
#include "model/session_file.h"

namespace thimble {

const char* version() { return THIMBLE_VERSION; }

std::string version_text() {
  std::string text = "runner " + std::string(version()) + "\nbuilt with ExecuTorch";
  text += " " EXECUTORCH_VERSION ": " THIMBLE_FEATURES;
  text += "\nreads programs of the CPU delegate up to version " +
          std::to_string(thimble_program_version());
  text += ", sessions of versions " + std::to_string(kOldSessionVersion) + " to " +
          std::to_string(kPictureVersion) + "\n";
  return text;
}

}  // namespace thimble
