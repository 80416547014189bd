#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace thimble {

/// Whether this program reads the settings of `what` that a file has.
inline Status check_settings_version(const std::string& what, uint32_t version, uint32_t known) {
  if (version == known) return {};
  return Status::error("the settings of " + what + " have version " + std::to_string(version) +
                       "; this program reads version " + std::to_string(known) +
                       ": export the model again, or update the program");
}

}  // namespace thimble
