#pragma once

namespace thimble::platform {

/// Loads a shared library for its static initialisers; one that is not there has no effect.
void load_shared_library(const char* name);

}  // namespace thimble::platform
