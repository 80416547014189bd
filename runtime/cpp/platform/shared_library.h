#pragma once

namespace thimble::platform {

/// Loads a shared library for its static initialisers, from where the library of a function lies,
/// or else from where the loader looks; one that is not there has no effect.
void load_shared_library(const char* name, const void* function);

}  // namespace thimble::platform
