#pragma once

#include <stddef.h>
#include <stdint.h>

/// Observes the values of a running program: libthimble_watch, for debuggers. The program runs on
/// the kernels and delegates that the process has registered with ExecuTorch. One call at a time. A
/// function that fails writes its sentence to `error`, cut to `error_size` bytes with the closing
/// zero.

#ifdef __cplusplus
extern "C" {
#endif

#define THIMBLE_WATCH_API __attribute__((visibility("default")))

typedef struct thimble_watched thimble_watched;

/// Is called with a float32 value as soon as it is computed; `values` is valid until it returns.
/// The values inside a delegate come with the delegate's id of the operator, before the arguments
/// of the delegate's call; arguments of an instruction, its outputs last, come with null. Values of
/// other types are left out.
typedef void (*thimble_value_callback)(int64_t instruction, const char* debug_id,
                                       const float* values, int64_t count, void* context);

/// Loads the method `forward` of a `.pte`. Null on failure.
THIMBLE_WATCH_API thimble_watched* thimble_watch_load(const char* path, char* error,
                                                      size_t error_size);

/// Runs `forward`(tokens, input_pos), or `forward`(tokens), on `count` tokens, from the position
/// `start_pos` on where it takes one. `row` takes its output, `width` numbers. 0 on success.
THIMBLE_WATCH_API int thimble_watch_call(thimble_watched* watched, const int64_t* tokens,
                                         int64_t count, int64_t start_pos,
                                         thimble_value_callback on_value, void* context, float* row,
                                         int64_t width, char* error, size_t error_size);

/// A tensor that the method `forward` of any module takes.
typedef struct {
  const void* data;
  int32_t type;  ///< torch's number of the type
  int32_t rank;
  const int32_t* sizes;  ///< `rank` of them
} thimble_watch_tensor;

/// Runs it on any `count` tensors, of a file that was loaded likewise. 0 on success.
THIMBLE_WATCH_API int thimble_watch_run(thimble_watched* watched,
                                        const thimble_watch_tensor* inputs, size_t count,
                                        thimble_value_callback on_value, void* context, char* error,
                                        size_t error_size);

THIMBLE_WATCH_API void thimble_watch_free(thimble_watched* watched);

#ifdef __cplusplus
}
#endif
