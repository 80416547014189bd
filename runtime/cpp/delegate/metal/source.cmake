# The kernels as one text, in the order of this list, without their own includes: what the delegate
# compiles on the device, and what the tests run. `cmake -DOUTPUT=... -P` writes it; AS_STRING makes
# it a C++ source that defines it as kMetalSource.
set(parts
  params.h
  kernels/common.metal
  kernels/weights.metal
  kernels/embedding.metal
  kernels/rows.metal
  kernels/matvec.metal
  kernels/matmul.metal
  kernels/float_linear.metal
  kernels/heads.metal
  kernels/attention.metal
  kernels/attention_split.metal)
set(text "")
foreach(part ${parts})
  file(READ ${CMAKE_CURRENT_LIST_DIR}/${part} content)
  string(REPLACE "#pragma once\n" "" content "${content}")
  # params.h begins the text and speaks of uint32_t and int32_t, which Metal's library defines.
  string(REPLACE "#include <metal_stdlib>\n" "" content "${content}")
  string(APPEND text "${content}")
endforeach()
set(text "#include <metal_stdlib>\n${text}")
if(AS_STRING)
  string(PREPEND text "extern const char kMetalSource[];\nconst char kMetalSource[] = R\"METAL(\n")
  string(APPEND text ")METAL\";\n")
endif()
file(WRITE ${OUTPUT} "${text}")
