# Apple's processors: ziglang has the system's headers and links against its libraries. Without
# Metal, whose frameworks it has not.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(zig_target aarch64-macos.13.0)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
set(THIMBLE_METAL OFF CACHE BOOL "")
