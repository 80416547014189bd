# ExecuTorch from its source, of which we build what we need, or from any install: its wheel, whose
# targets are executorch::<component>, or its own build of its source, whose libraries have names of
# their own. What follows uses the wheel's names; a component that is lacking is simply no target.
set(THIMBLE_EXECUTORCH_SOURCE "" CACHE PATH "ExecuTorch's source; empty: executorch_DIR has it built")
if(THIMBLE_EXECUTORCH_SOURCE)
  include(${CMAKE_CURRENT_LIST_DIR}/executorch_source.cmake)
  set(executorch_place ${THIMBLE_EXECUTORCH_SOURCE})
else()
  find_package(executorch REQUIRED)
  set(executorch_place ${executorch_DIR})
  set(executorch_version "of an unknown version")
  if(executorch_VERSION)
    set(executorch_version ${executorch_VERSION})
  endif()
endif()

# A component, and the libraries of a source build that are the same.
function(name_component component)
  foreach(library ${ARGN})
    if(TARGET executorch::${component} OR NOT TARGET ${library})
      return()
    endif()
  endforeach()
  add_library(executorch::${component} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(executorch::${component} INTERFACE ${ARGN})
endfunction()

name_component(runtime executorch extension_module_static extension_tensor)
name_component(threadpool extension_threadpool)
name_component(backend_xnnpack xnnpack_backend)
name_component(kernels_optimized optimized_native_cpu_ops_lib)
name_component(kernels_quantized quantized_ops_lib)
name_component(etdump etdump)

# ExecuTorch's headers are a library's, not ours to warn about. CMake itself writes where the
# libraries are into what it builds, and takes it out of what it installs; the option of ExecuTorch's
# that writes it too would stay in a wheel.
foreach(component runtime threadpool backend_xnnpack kernels_optimized kernels_quantized etdump)
  if(TARGET executorch::${component} AND NOT THIMBLE_EXECUTORCH_SOURCE)
    set_target_properties(executorch::${component} PROPERTIES SYSTEM ON)
    get_target_property(options executorch::${component} INTERFACE_LINK_OPTIONS)
    if(options)
      list(FILTER options EXCLUDE REGEX "^LINKER:-rpath,/")
      set_property(TARGET executorch::${component} PROPERTY INTERFACE_LINK_OPTIONS ${options})
    endif()
  endif()
endforeach()
if(NOT TARGET executorch::runtime)
  message(FATAL_ERROR "The ExecuTorch of ${executorch_place} has no runtime with the module and "
                      "tensor extensions: build it with EXECUTORCH_BUILD_EXTENSION_MODULE=ON and "
                      "EXECUTORCH_BUILD_EXTENSION_TENSOR=ON")
endif()

# Sets `variable` to whether the feature is wanted, by the option THIMBLE_<name>, and possible.
function(decide_feature variable name)
  set(${variable} ${THIMBLE_${name}} PARENT_SCOPE)
  if(NOT THIMBLE_${name})
    message(STATUS "${name}: left out, as THIMBLE_${name}=${THIMBLE_${name}} says")
    return()
  endif()
  foreach(component ${ARGN})
    if(NOT TARGET executorch::${component})
      message(STATUS "${name}: left out, the ExecuTorch of ${executorch_place} has no ${component}")
      set(${variable} OFF PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(STATUS "${name}: in")
endfunction()

option(THIMBLE_XNNPACK "Run programs of the XNNPACK delegate, not only those of our own" ON)
option(THIMBLE_ETDUMP "Record profiles" ON)
decide_feature(with_xnnpack XNNPACK backend_xnnpack kernels_optimized threadpool)
decide_feature(with_etdump ETDUMP etdump)
