#pragma once

#include <string>

namespace thimble {

/// What to do where the context is too short; an export above the model's limit is refused.
inline std::string export_longer() {
  return "export with a larger --max-context-len, up to the model's own limit";
}

}  // namespace thimble
