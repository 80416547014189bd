#include "platform/processors.h"

#include "platform/threads.h"

namespace thimble::platform {

// JavaScript knows, and asks for so many threads.
size_t processors() { return kHasThreads ? 0 : 1; }
size_t fast_cores() { return 1; }
std::string processor_name() { return "WebAssembly"; }

}  // namespace thimble::platform
