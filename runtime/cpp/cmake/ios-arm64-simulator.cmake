# Their simulator on Macs with Apple's processors: as macos-arm64.cmake, with the system's headers and library as the environment
# variable ZIG_LIBC tells ziglang.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(zig_target aarch64-ios.16.0-simulator)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
set(CMAKE_CXX_FLAGS_INIT "-fno-sanitize=undefined")
set(THIMBLE_METAL OFF CACHE BOOL "")
