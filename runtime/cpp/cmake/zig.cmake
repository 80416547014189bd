# The compiler of PyPI's ziglang, which links for systems that are not this one; included with
# zig_target set. THIMBLE_ZIG: its program.
set(THIMBLE_ZIG "" CACHE FILEPATH "zig, of the ziglang package")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES THIMBLE_ZIG)
set(CMAKE_CXX_COMPILER ${THIMBLE_ZIG} c++ -target ${zig_target})
# A compiler of two words has no tools of its own beside it.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${THIMBLE_ZIG}\" ar crs <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "\"${THIMBLE_ZIG}\" ar rs <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
