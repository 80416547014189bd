# Libraries of the system, of which a wheel has copies: of this machine, or of the one that a wheel is
# for (Debian's packages for another architecture).
if(NOT CMAKE_CROSSCOMPILING OR (CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT THIMBLE_EXECUTORCH_SOURCE))
  set(with_system_libraries ON)
endif()

# What a wheel made here lacks, for runtime/packaging/package.py: "what (Debian's package)".
set(THIMBLE_WHEEL_LACKS "" CACHE INTERNAL "what a wheel made here lacks")
function(lack_in_wheel what package)
  if(CMAKE_CROSSCOMPILING)
    string(APPEND package ":arm64")
  endif()
  set(THIMBLE_WHEEL_LACKS ${THIMBLE_WHEEL_LACKS} "${what} (${package})" CACHE INTERNAL "")
endfunction()

# A wheel's copy of a library comes with its licence.
#
# PACKAGES: what Debian calls packages with it, beside `name`. ADVICE: how to do without the library.
function(carry_licence name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ADVICE" "PACKAGES")
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  set(suffixes ${arg_PACKAGES})
  list(TRANSFORM suffixes PREPEND "doc/")
  find_file(THIMBLE_${name}_LICENCE NAMES copyright LICENSE LICENSE.md LICENSE.txt COPYING
            PATH_SUFFIXES ${suffixes} licenses/${name} PATHS /usr/share NO_DEFAULT_PATH)
  if(THIMBLE_${name}_LICENCE)
    install(FILES ${THIMBLE_${name}_LICENCE} DESTINATION . RENAME LICENSE-${name}
            COMPONENT wheel)
  else()
    install(CODE "message(FATAL_ERROR \"A wheel needs the licence of ${name}, which is not in \
/usr/share: install its package with documentation, or ${arg_ADVICE}\")"
            COMPONENT wheel)
  endif()
endfunction()
