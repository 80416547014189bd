#include "platform/processors.h"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>

#include <set>
#include <vector>
#endif

namespace thimble::platform {

#if defined(__linux__)
namespace {

struct Core {
  std::string siblings;  ///< the CPUs of this core, as the kernel lists them
  long capacity;         ///< of the fastest core: 1024; 0 where the kernel does not say
};

/// The cores behind the CPUs that this process may run on, each once.
std::vector<Core> usable_cores() {
  cpu_set_t allowed;
  std::vector<Core> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  std::set<std::string> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string directory = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    std::string siblings = std::to_string(cpu);
    std::ifstream(directory + "/topology/thread_siblings_list") >> siblings;
    if (!seen.insert(siblings).second) continue;
    long capacity = 0;
    std::ifstream(directory + "/cpu_capacity") >> capacity;
    cores.push_back({siblings, capacity});
  }
  return cores;
}

}  // namespace

size_t fast_cores() {
  const std::vector<Core> cores = usable_cores();
  long most = 0;
  for (const Core& core : cores) most = std::max(most, core.capacity);
  return static_cast<size_t>(std::count_if(
      cores.begin(), cores.end(), [most](const Core& core) { return 2 * core.capacity >= most; }));
}
#else
size_t fast_cores() { return 0; }
#endif

size_t processors() { return std::thread::hardware_concurrency(); }

std::string processor_name() {
  std::ifstream information("/proc/cpuinfo");  // Linux on x86 has a name there
  for (std::string line; std::getline(information, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  struct utsname system{};
  return uname(&system) == 0 ? system.machine : "";
}

}  // namespace thimble::platform
