#pragma once

#include <stddef.h>
#include <stdint.h>

/// The runner for other languages: libthimble. Every function may be called from any thread, one at
/// a time for each runner. Text is UTF-8. A function that fails writes its sentence to `error`, cut
/// to `error_size` bytes with the closing zero.

#ifdef __cplusplus
extern "C" {
#endif

#define THIMBLE_API __attribute__((visibility("default")))

typedef struct thimble_runner thimble_runner;

typedef struct {
  int64_t max_new_tokens; /* 0: until the model ends or the context is full */
  float temperature;      /* 0: always the most likely token */
  int32_t top_k;          /* 0: all */
  float top_p;            /* 1: all */
  float min_p;            /* 0: all */
  uint64_t seed;
} thimble_options;

/// Takes a piece of the answer, whole characters, `size` bytes; 0 ends the answer.
typedef int (*thimble_text_callback)(const char* text, size_t size, void* context);

/// Loads a model with `threads` threads, 0: the default. Null on failure.
THIMBLE_API thimble_runner* thimble_load(const char* path, int32_t threads, char* error,
                                         size_t error_size);

/// Continues the prompt, `prompt_size` bytes; a callback takes the text. 0 on success.
THIMBLE_API int thimble_generate(thimble_runner* runner, const char* prompt, size_t prompt_size,
                                 const thimble_options* options, thimble_text_callback on_text,
                                 void* context, char* error, size_t error_size);

/// The statistics of the last answer as JSON, until the next call with this runner.
THIMBLE_API const char* thimble_stats(thimble_runner* runner);

/// Checks the whole file, weights included. 0 when it is sound.
THIMBLE_API int thimble_verify(thimble_runner* runner, char* error, size_t error_size);

/// Frees the runner; null is allowed.
THIMBLE_API void thimble_free(thimble_runner* runner);

#ifdef __cplusplus
}
#endif
