# ExecuTorch's runtime from its source, for systems that its wheel does not serve: what programs of
# --delegate cpu need, without kernels, XNNPACK, profiles and Python. Sets executorch::runtime and
# executorch_version.
set(THIMBLE_FLATC "" CACHE FILEPATH "flatbuffers' compiler, for this machine; empty: from the PATH")
set(THIMBLE_FLATBUFFERS "${THIMBLE_EXECUTORCH_SOURCE}/third-party/flatbuffers/include" CACHE PATH
    "flatbuffers' C++ headers, of the compiler's version")
if(NOT THIMBLE_FLATC)
  find_program(THIMBLE_FLATC_FOUND flatc REQUIRED)
  set(THIMBLE_FLATC ${THIMBLE_FLATC_FOUND})
endif()
foreach(needed ${THIMBLE_EXECUTORCH_SOURCE}/runtime/executor/method.cpp
        ${THIMBLE_FLATBUFFERS}/flatbuffers/flatbuffers.h)
  if(NOT EXISTS ${needed})
    message(FATAL_ERROR "${needed} is missing: clone ExecuTorch with its submodule "
                        "third-party/flatbuffers, or set THIMBLE_FLATBUFFERS")
  endif()
endforeach()
file(STRINGS ${THIMBLE_EXECUTORCH_SOURCE}/version.txt executorch_version LIMIT_COUNT 1)

# Its files include each other as <executorch/...>.
set(executorch_include ${CMAKE_BINARY_DIR}/executorch)
file(MAKE_DIRECTORY ${executorch_include})
file(CREATE_LINK ${THIMBLE_EXECUTORCH_SOURCE} ${executorch_include}/executorch SYMBOLIC)

set(executorch_generated ${CMAKE_BINARY_DIR}/executorch_generated)
set(executorch_schemas "")
foreach(folder schema extension/flat_tensor/serialize)
  set(headers "")
  file(GLOB schemas ${THIMBLE_EXECUTORCH_SOURCE}/${folder}/*.fbs)
  foreach(schema ${schemas})
    get_filename_component(name ${schema} NAME_WE)
    list(APPEND headers ${executorch_generated}/executorch/${folder}/${name}_generated.h)
  endforeach()
  add_custom_command(
    OUTPUT ${headers}
    COMMAND ${THIMBLE_FLATC} --cpp --cpp-std c++11 --gen-mutable --scoped-enums
            -o ${executorch_generated}/executorch/${folder} ${schemas}
    DEPENDS ${schemas}
    VERBATIM)
  list(APPEND executorch_schemas ${headers})
endforeach()

set(executorch_files
  extension/data_loader/file_data_loader.cpp
  extension/data_loader/mmap_data_loader.cpp
  extension/flat_tensor/flat_tensor_data_map.cpp
  extension/flat_tensor/serialize/flat_tensor_header.cpp
  extension/module/module.cpp
  extension/named_data_map/merged_data_map.cpp
  extension/tensor/tensor_ptr.cpp
  extension/tensor/tensor_ptr_maker.cpp
  runtime/backend/interface.cpp
  runtime/core/device_allocator.cpp
  runtime/core/device_memory_buffer.cpp
  runtime/core/evalue.cpp
  runtime/core/exec_aten/util/tensor_shape_to_c_string.cpp
  runtime/core/exec_aten/util/tensor_util_portable.cpp
  runtime/core/portable_type/tensor_impl.cpp
  runtime/core/tag.cpp
  runtime/core/tensor_layout.cpp
  runtime/executor/method.cpp
  runtime/executor/method_meta.cpp
  runtime/executor/program.cpp
  runtime/executor/program_validation.cpp
  runtime/executor/pte_data_map.cpp
  runtime/executor/tensor_parser_exec_aten.cpp
  runtime/executor/tensor_parser_portable.cpp
  runtime/kernel/operator_registry.cpp
  runtime/platform/abort.cpp
  runtime/platform/default/posix.cpp
  runtime/platform/log.cpp
  runtime/platform/platform.cpp
  runtime/platform/profiler.cpp
  runtime/platform/runtime.cpp
  schema/extended_header.cpp)
list(TRANSFORM executorch_files PREPEND ${executorch_include}/executorch/)
add_library(executorch_runtime STATIC ${executorch_files} ${executorch_schemas})
add_library(executorch::runtime ALIAS executorch_runtime)
# As its own build does; its warnings are a library's, not ours.
target_compile_definitions(executorch_runtime PUBLIC C10_USING_CUSTOM_GENERATED_MACROS
                           PRIVATE FLATBUFFERS_MAX_ALIGNMENT=1024)
target_compile_options(executorch_runtime PRIVATE -w -ffunction-sections -fdata-sections)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "wasm32")  # for a loader that is never called
  target_compile_definitions(executorch_runtime PRIVATE _WASI_EMULATED_MMAN)
endif()
target_include_directories(
  executorch_runtime SYSTEM PUBLIC ${executorch_include}
                                   ${THIMBLE_EXECUTORCH_SOURCE}/runtime/core/portable_type/c10
                            PRIVATE ${executorch_generated} ${THIMBLE_FLATBUFFERS})
