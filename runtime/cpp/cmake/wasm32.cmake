# WebAssembly, for browsers and node: ziglang brings the C library, without threads and exceptions:
# a failed allocation ends the module.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(zig_target wasm32-wasi)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
# Of all code, the C library's too, or memory could not be shared.
option(THIMBLE_WASM_THREADS "Share memory between threads" OFF)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES THIMBLE_WASM_THREADS)
if(THIMBLE_WASM_THREADS)
  list(APPEND CMAKE_CXX_COMPILER -mcpu=generic+atomics+bulk_memory)
endif()
set(CMAKE_CXX_FLAGS_INIT "-fignore-exceptions -fno-rtti -ffunction-sections -fdata-sections")
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE_SUPPORTED TRUE)
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE
    "LINKER:--whole-archive" "<LINK_ITEM>" "LINKER:--no-whole-archive")
# Small, as it is downloaded; kernels say that they are to be fast. Without NDEBUG, which zig would
# define, and with which ExecuTorch's headers declare glibc's __assert_fail().
set(CMAKE_CXX_FLAGS_RELEASE "-Os -UNDEBUG" CACHE STRING "")
