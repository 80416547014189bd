#pragma once

#include "thimble.h"

/// \file
/// Programs of tensors for other languages; what thimble.h says of functions, errors and structs
/// holds here too.

#ifdef __cplusplus
extern "C" {
#endif

/// A method of a program of tensors: any module that python -m exporter captured. Only one thread
/// at a time may use the methods of a file.
typedef struct thimble_program thimble_program;

typedef struct {
  const char* name;     /* null or "": the next in the signature's order */
  const char* type;     /* such as "float32", as in the signature */
  const int64_t* shape; /* `rank` sizes */
  int32_t rank;
  const void* data; /* the elements, row by row */
} thimble_tensor;

/// Loads a program of tensors; of several methods, the handle is for forward, or for the first if
/// there is no forward, and each is loaded by its first run. Returns null on failure.
THIMBLE_API thimble_program* thimble_program_load(const char* path,
                                                  const thimble_load_options* options, char* error,
                                                  size_t error_size);

/// The same of a file that someone signed, as thimble_load_signed().
THIMBLE_API thimble_program* thimble_program_load_signed(const char* path, const char* public_key,
                                                         const thimble_load_options* options,
                                                         char* error, size_t error_size);

/// Loads one whose `size` bytes are in memory, as thimble_load_bytes() does.
THIMBLE_API thimble_program* thimble_program_load_bytes(const void* data, size_t size,
                                                        const char* name,
                                                        const thimble_load_options* options,
                                                        char* error, size_t error_size);

/// Returns the names of the file's methods, as a JSON array in the order of the export. Valid as
/// long as the program.
THIMBLE_API const char* thimble_program_methods(const thimble_program* program);

/// Returns another method of the same file, by its name. They share weights, threads, the recording
/// and the buffers that both change. Either may be freed first. Returns null on failure.
THIMBLE_API thimble_program* thimble_program_method(const thimble_program* program,
                                                    const char* name, char* error,
                                                    size_t error_size);

/// Returns what it takes and returns, as a JSON object: "inputs" and "outputs", each with "name",
/// "type" and "sizes", [least, most, symbol] each, where sizes of one symbol belong together; and
/// "state", the buffers that calls change. Valid as long as the program.
THIMBLE_API const char* thimble_program_signature(const thimble_program* program);

/// Runs the program on `count` inputs, which are only read. Types and shapes are checked, and,
/// where the program would lose it, that there is no NaN. bfloat16 is given as float32 and rounded.
/// Returns 0 on success.
THIMBLE_API int thimble_program_run(thimble_program* program, const thimble_tensor* inputs,
                                    size_t count, char* error, size_t error_size);

/// Returns the number of outputs of the last run; 0 before the first, and after one that failed.
THIMBLE_API size_t thimble_program_outputs(const thimble_program* program);

/// Writes the output of an index to `output`, valid until the next run or the end of the program.
/// Returns 0 on success.
THIMBLE_API int thimble_program_output(const thimble_program* program, size_t index,
                                       thimble_tensor* output, char* error, size_t error_size);

/// Gives the buffers that calls change the values that they had at the export; those that other
/// methods change as well too. Returns 0 on success.
THIMBLE_API int thimble_program_reset(thimble_program* program, char* error, size_t error_size);

/// Records the profile of the runs of all methods of a file, as thimble_start_recording() and
/// thimble_stop_recording() do.
THIMBLE_API int thimble_program_start_recording(thimble_program* program, int64_t max_calls,
                                                int64_t max_bytes, char* error, size_t error_size);
THIMBLE_API int thimble_program_stop_recording(thimble_program* program, const char* path,
                                               thimble_recording* recording, char* error,
                                               size_t error_size);

/// Frees the program; null is allowed.
THIMBLE_API void thimble_program_free(thimble_program* program);

#ifdef __cplusplus
}
#endif
