// The memory of a test's vectors ends, to the alignment, where a page begins that nothing may
// touch: a kernel that reads or writes further is ended by the system. That costs little, so that
// it watches every instruction set at its full speed, and emulated ones too.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

namespace {

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

/// A page that holds how many bytes all the pages have, those of the memory, and one to stop at.
/// What is freed is kept for the next of its size; the tests have one thread.
struct Pages {
  size_t bytes;
  Pages* next;
};
Pages* freed = nullptr;

Pages* take(size_t bytes) {
  for (Pages** at = &freed; *at != nullptr; at = &(*at)->next) {
    Pages* pages = *at;
    if (pages->bytes != bytes) continue;
    *at = pages->next;
    return pages;
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  uint8_t* end = static_cast<uint8_t*>(memory) + bytes - page_size();
  if (mprotect(end, page_size(), PROT_NONE) != 0) throw std::bad_alloc();
  return new (memory) Pages{bytes, nullptr};
}

}  // namespace

void* operator new(size_t size, std::align_val_t alignment) {
  const size_t page = page_size(), used = round_up(size, static_cast<size_t>(alignment));
  Pages* pages = take(page + round_up(used, page) + page);
  return reinterpret_cast<uint8_t*>(pages) + pages->bytes - page - used;
}

void* operator new(size_t size) { return operator new(size > 0 ? size : 1, std::align_val_t(16)); }

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  const size_t page = page_size(), into_page = reinterpret_cast<uintptr_t>(memory) % page;
  auto* pages = reinterpret_cast<Pages*>(static_cast<uint8_t*>(memory) - into_page - page);
  pages->next = freed;
  freed = pages;
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { operator delete(memory); }
