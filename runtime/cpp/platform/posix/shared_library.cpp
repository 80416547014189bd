#include "platform/shared_library.h"

#include <dlfcn.h>

namespace thimble::platform {

void load_shared_library(const char* name) { dlopen(name, RTLD_NOW | RTLD_LOCAL); }

}  // namespace thimble::platform
