#include "platform/memory_use.h"

#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace thimble::platform {

int64_t peak_memory_bytes() {
#if defined(__linux__)
  // getrusage() would count what the parent held when it forked this process.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atoll(line.c_str() + 6) * 1024;
  }
#endif
  struct rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;  // bytes, on Apple's systems
}

}  // namespace thimble::platform
