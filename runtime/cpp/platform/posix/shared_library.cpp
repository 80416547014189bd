#include "platform/shared_library.h"

#include <dlfcn.h>

#include <string>

namespace thimble::platform {

void load_shared_library(const char* name, const void* function) {
  Dl_info found;
  if (dladdr(function, &found) != 0 && found.dli_fname != nullptr) {
    const std::string path = found.dli_fname;
    const std::string beside = path.substr(0, path.rfind('/') + 1) + name;
    if (dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  }
  dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace thimble::platform
