// What the C++ library and ExecuTorch refer to and WebAssembly's C library lacks.

#include <cstddef>
#include <cstdlib>

extern "C" {

// An exception, as of a failed allocation, ends the module.
void* __cxa_allocate_exception(size_t) { std::abort(); }
void __cxa_throw(void*, void*, void (*)(void*)) { std::abort(); }

// Of ExecuTorch's loader of files, which is never called.
int madvise(void*, size_t, int) { return -1; }
int mlock(const void*, size_t) { return -1; }
}
