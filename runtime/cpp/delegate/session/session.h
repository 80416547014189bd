#pragma once

#include <stddef.h>
#include <stdint.h>

/// \file
/// What a caller may ask of the CPU delegate, beside running a program: how it runs, and its KV
/// cache as a value. A session is opened first; its id, given to the load as the backend option
/// THIMBLE_SESSION_OPTION of the backend THIMBLE_CPU_BACKEND, ties what is loaded to it. Close it
/// after the program is gone. Without one the delegate uses the defaults. Programs of one session
/// share the caches of one name, as the methods of a file do.
///
/// One thread at a time for each session, none of it while the program runs. A function that fails
/// returns something other than 0 and writes its sentence to `error`, cut to `error_size` bytes
/// with the closing zero.

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define THIMBLE_SESSION_API __attribute__((visibility("default")))
#else
#define THIMBLE_SESSION_API
#endif

#define THIMBLE_CPU_BACKEND "ThimbleCpuBackend"
#define THIMBLE_METAL_BACKEND "ThimbleMetalBackend"
#define THIMBLE_SESSION_OPTION "session"

enum {
  THIMBLE_CACHE_DEFAULT = 0, /* what the program asks for */
  THIMBLE_CACHE_FLOAT16 = 1,
  THIMBLE_CACHE_FLOAT32 = 2,
  THIMBLE_CACHE_INT8 = 3
};

typedef struct {
  int32_t threads;    /* 1 to 256; 0: one for each core worth using */
  int32_t cache_type; /* THIMBLE_CACHE_... */
  int32_t huge_pages; /* not 0: weights are copied into huge pages where the system has them */
} thimble_session_options;

/// The version of the delegate's programs that this runtime reads.
THIMBLE_SESSION_API int32_t thimble_program_version(void);

/// Opens a session; its id, above 0, goes to `session`.
THIMBLE_SESSION_API int thimble_session_open(const thimble_session_options* options,
                                             int32_t* session, char* error, size_t error_size);

/// Frees what the session holds. An id that is not open is ignored.
THIMBLE_SESSION_API void thimble_session_close(int32_t session);

/// How many threads the session runs on: those asked for, or as many as were found worth using.
THIMBLE_SESSION_API int32_t thimble_session_threads(int32_t session);

/// What the session runs with, as text for people: kernels, threads, cache, pages; "" before the
/// load. Valid until the session is closed.
THIMBLE_SESSION_API const char* thimble_session_describe(int32_t session);

/// Rows of one sequence in a call: tokens that follow each other.
typedef struct {
  int32_t cache;            /* number of the cache that they read and write, current or not */
  int64_t start_pos;        /* of the first, in the cache */
  int64_t rows;             /* how many of the call's tokens; segments follow one another */
  int64_t logit_rows;       /* how many of the last get logits; 0: those that the program gives */
  const int64_t* positions; /* that they are rotated by, `rows`; null: those in the cache */
} thimble_segment;

/// Says what the next call in this session is made of, whatever program it runs. Without it, and
/// with a `count` of 0, a call is one segment of the current cache, at the start_pos of its inputs.
///
/// This runtime runs one segment a call, whose positions are those in the cache, with logits of as
/// many rows as the program gives: of the last row, or of all where it was exported so. Anything
/// else is refused here, or, where it is the program that cannot do it, by the call, whose inputs
/// must say the same number of rows and the same start_pos. Nothing given is kept after the return.
THIMBLE_SESSION_API int thimble_session_segments(int32_t session, const thimble_segment* segments,
                                                 size_t count, char* error, size_t error_size);

/// Positions the current cache holds: the end of the last call, or of the last truncation.
THIMBLE_SESSION_API int64_t thimble_cache_length(int32_t session);

/// Forgets every position from `length` on.
THIMBLE_SESSION_API int thimble_cache_truncate(int32_t session, int64_t length, char* error,
                                               size_t error_size);

/// The bytes that thimble_cache_save() writes for the current cache.
THIMBLE_SESSION_API size_t thimble_cache_size(int32_t session);

/// Writes the current cache, all layers and positions, to `data` of thimble_cache_size() bytes: the
/// same on every instruction set.
THIMBLE_SESSION_API int thimble_cache_save(int32_t session, void* data, size_t size, char* error,
                                           size_t error_size);

/// Makes the current cache what was saved, by this program with the same type of cache; on failure
/// it stays as it was.
THIMBLE_SESSION_API int thimble_cache_restore(int32_t session, const void* data, size_t size,
                                              char* error, size_t error_size);

/// Copies the current cache into a new one, whose number, above 0, goes to `cache`. The first is 0.
THIMBLE_SESSION_API int thimble_cache_fork(int32_t session, int32_t* cache, char* error,
                                           size_t error_size);

/// Makes a cache the current one, which calls read and write.
THIMBLE_SESSION_API int thimble_cache_use(int32_t session, int32_t cache, char* error,
                                          size_t error_size);

/// Frees a cache that is not the current one and not 0.
THIMBLE_SESSION_API int thimble_cache_free(int32_t session, int32_t cache, char* error,
                                           size_t error_size);

#ifdef __cplusplus
}
#endif
