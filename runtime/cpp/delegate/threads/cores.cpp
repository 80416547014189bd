#include "delegate/threads/cores.h"

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <sched.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>
#endif

namespace thimble::cpu {
namespace {

#if defined(__linux__)
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

}  // namespace

size_t default_threads() {
  const size_t fast = fast_cores();
  return std::clamp<size_t>(fast > 0 ? fast : std::thread::hardware_concurrency(), 1, kMostThreads);
}

}  // namespace thimble::cpu
