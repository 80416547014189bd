#include "platform/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace thimble::platform {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

Pages Pages::allocate(size_t bytes, Kind kind) {
  Pages pages;
  const size_t slack = kind == Kind::kHuge ? kHugePage : 0;
  if (bytes == 0 || bytes > SIZE_MAX - slack) return pages;
  void* mapping =
      mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return pages;
  auto* data = static_cast<uint8_t*>(mapping);
  if (kind == Kind::kHuge) {
    data += (kHugePage - reinterpret_cast<uintptr_t>(data) % kHugePage) % kHugePage;
  }
#if defined(__linux__)
  // Only advice: a kernel without huge pages refuses it, and small pages work as well.
  (void)madvise(mapping, bytes + slack, kind == Kind::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  pages.data_ = data;
  pages.size_ = bytes;
  pages.mapping_ = mapping;
  pages.mapping_size_ = bytes + slack;
  return pages;
}

Pages::~Pages() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_size_);
}

size_t Pages::huge_bytes() const {
#if defined(__linux__)
  const auto begin = reinterpret_cast<uintptr_t>(mapping_);
  const uintptr_t end = begin + mapping_size_;
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  size_t kilobytes = 0;
  while (std::getline(maps, line)) {
    uintptr_t first = 0, last = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> first >> dash >> last && dash == '-') {
      inside = first < end && last > begin;
      continue;
    }
    std::istringstream entry(line);
    std::string name;
    size_t count = 0;
    if (inside && entry >> name >> count && name == "AnonHugePages:") kilobytes += count;
  }
  return kilobytes * 1024;
#else
  return 0;
#endif
}

}  // namespace thimble::platform
