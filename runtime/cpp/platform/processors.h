#pragma once

#include <cstddef>
#include <string>

namespace thimble::platform {

/// How many threads the system can run at once; 0 if it does not say.
size_t processors();

/// The cores that this process may use, a core that runs two threads counted once, and slow cores
/// (of less than half the capacity of the fastest) not at all; 0 if the system does not say.
size_t fast_cores();

/// The processor's name where the system tells it, else only the architecture.
std::string processor_name();

}  // namespace thimble::platform
