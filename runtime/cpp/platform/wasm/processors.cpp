#include "platform/processors.h"

namespace thimble::platform {

size_t processors() { return 1; }
size_t fast_cores() { return 1; }
std::string processor_name() { return "WebAssembly"; }

}  // namespace thimble::platform
