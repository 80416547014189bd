#pragma once

#include <stddef.h>
#include <stdint.h>

/// \file
/// Control of the CPU delegate, besides running a program: how it runs, and access to its KV cache.
/// Open a session first. Pass its id to the load as the backend option THIMBLE_SESSION_OPTION of
/// the backend THIMBLE_CPU_BACKEND; this connects what is loaded with the session. Close the
/// session after the program is destroyed. Without a session the delegate uses the defaults.
/// Programs of one session share caches of the same name, as the methods of a file do.
///
/// Only one thread at a time may use a session, and none while the program runs. A function that
/// fails does not return 0. It writes one sentence to `error`, cut to `error_size` bytes with the
/// closing zero.

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
  THIMBLE_CACHE_INT8 = 3,
  THIMBLE_CACHE_INT4 = 4,
  THIMBLE_CACHE_INT8_INT4 = 5 /* keys of int8, values of int4 */
};

enum {
  THIMBLE_TABLE_BY_CALL = 0, /* the call at position 0 chooses, by its length */
  THIMBLE_TABLE_SHORT = 1,
  THIMBLE_TABLE_LONG = 2
};

enum { THIMBLE_MOST_LOGIT_ROWS = 64 /* of a call, of all its segments */ };

typedef struct {
  int32_t threads;    /* 1 to 256; 0: one for each core worth using */
  int32_t cache_type; /* THIMBLE_CACHE_... */
  int32_t huge_pages; /* not 0: weights are copied into huge pages where the system has them */
} thimble_session_options;

/// The newest version of the delegate's programs that this runtime can read.
THIMBLE_SESSION_API int32_t thimble_program_version(void);

/// Opens a session and writes its id, above 0, to `session`.
THIMBLE_SESSION_API int thimble_session_open(const thimble_session_options* options,
                                             int32_t* session, char* error, size_t error_size);

/// Closes a session and frees its memory. An id that is not open is ignored.
THIMBLE_SESSION_API void thimble_session_close(int32_t session);

/// The number of threads of the session: the number requested, or the one that was chosen.
THIMBLE_SESSION_API int32_t thimble_session_threads(int32_t session);

/// A readable description of how the session runs: kernels, threads, cache, pages; "" before the
/// load. Valid until the session is closed.
THIMBLE_SESSION_API const char* thimble_session_describe(int32_t session);

/// Rows of one sequence in a call: tokens that follow each other.
typedef struct {
  int32_t cache;            /* number of the cache that they read and write, current or not; -1:
                               none, for a program that keeps nothing */
  int64_t start_pos;        /* of the first, in the cache */
  int64_t rows;             /* how many of the call's tokens; segments follow one another */
  int64_t logit_rows;       /* how many of the last get logits; 0: none */
  const int64_t* positions; /* that they are rotated by: of each row `pairs`; null: those in the
                               cache, which none may be behind */
  int64_t pairs;       /* the first pairs of numbers of a head each have a position of their own,
                          further ones that of the last; 0: as 1, one for all */
  const int64_t* ends; /* of each row: one behind the last position that it attends to, in the
                          segment, and none before that of the row before; null: one behind its
                          own */
} thimble_segment;

/// Sets the segments of the next call in this session, for any program. Without it, or with a
/// `count` of 0, a call is one segment of the current cache, at the start_pos of its inputs.
///
/// The inputs of the call have the tokens of all segments and the start_pos of the first. Each
/// segment has a cache of its own; the adapters of the caches must be the same, and positions those
/// in the cache. Each segment's results are bit-identical to those of a call of its own.
///
/// `logits`, of `logits_size` floats, gets a row for each row that asks for logits, in the order of
/// the call. Those must follow one another: put segments without logits first, then one with logits
/// of some of its rows, then those with logits of all; at most THIMBLE_MOST_LOGIT_ROWS. The
/// program's own output has the last of them; `logits` may be null if there is no other. A program
/// that was exported to return the logits of all rows always does so, and then `logits` must be
/// null.
///
/// A program that pools, as for embeddings, gives one row for each segment, to `logits` too: then
/// request logits of no rows.
///
/// The Metal delegate supports one segment per call, with the logits of its last row.
/// What is not supported is refused here, or by the call. `segments` is not used after the return,
/// `logits` not after the call.
THIMBLE_SESSION_API int thimble_session_segments(int32_t session, const thimble_segment* segments,
                                                 size_t count, float* logits, size_t logits_size,
                                                 char* error, size_t error_size);

/// The number of positions in the current cache: the end of the last call or truncation.
THIMBLE_SESSION_API int64_t thimble_cache_length(int32_t session);

/// The largest length, up to `length`, to which the current cache can be truncated: `length`
/// itself; the position of a snapshot before it, where the model has states, of which only the last
/// few and every so many are kept; or 0, where a sliding window in front of it is no longer kept.
/// The caller then computes the positions from there on again.
THIMBLE_SESSION_API int64_t thimble_cache_kept_by_truncate(int32_t session, int64_t length);

/// Removes every position from `length` on; an error where the state there or a sliding window in
/// front of it is no longer kept.
THIMBLE_SESSION_API int thimble_cache_truncate(int32_t session, int64_t length, char* error,
                                               size_t error_size);

/// The number of adapters of the programs in the session.
THIMBLE_SESSION_API int32_t thimble_session_adapters(int32_t session);

/// The name of an adapter, from index 0 on; "" if there is none. Valid until the session is closed.
THIMBLE_SESSION_API const char* thimble_session_adapter_name(int32_t session, int32_t index);

/// The name of the current cache's adapter; "" if it has none. Valid until the session is closed.
THIMBLE_SESSION_API const char* thimble_cache_adapter(int32_t session);

/// Makes calls of the current cache run with an adapter; null or "": none, as at first. If the
/// cache has another, all its positions are removed, because they were computed with that one.
THIMBLE_SESSION_API int thimble_cache_use_adapter(int32_t session, const char* name, char* error,
                                                  size_t error_size);

/// The longest text that uses the first of two rotary tables of the session's programs (LongRoPE);
/// 0: they have one. What is cached for a position then depends on the table, too.
THIMBLE_SESSION_API int64_t thimble_session_original_context(int32_t session);

/// Chooses the table of the current cache: THIMBLE_TABLE_SHORT for texts of up to
/// thimble_session_original_context() tokens, THIMBLE_TABLE_LONG for longer ones, of which a part
/// may come first; THIMBLE_TABLE_BY_CALL, as at first. If the cache was computed with the other
/// one, all its positions are removed. A call that would mix both is refused.
THIMBLE_SESSION_API int thimble_cache_use_table(int32_t session, int32_t table, char* error,
                                                size_t error_size);

/// The table of the current cache: THIMBLE_TABLE_SHORT or THIMBLE_TABLE_LONG.
THIMBLE_SESSION_API int32_t thimble_cache_table(int32_t session);

/// The number of bytes that thimble_cache_save() writes for the current cache.
THIMBLE_SESSION_API size_t thimble_cache_size(int32_t session);

/// Writes the current cache, all layers and positions, to `data` of thimble_cache_size() bytes. The
/// bytes are the same on every instruction set.
THIMBLE_SESSION_API int thimble_cache_save(int32_t session, void* data, size_t size, char* error,
                                           size_t error_size);

/// Restores the current cache, and its rotary table, from what this program saved with the same
/// type of cache and the same adapter. On failure the cache does not change.
THIMBLE_SESSION_API int thimble_cache_restore(int32_t session, const void* data, size_t size,
                                              char* error, size_t error_size);

/// Copies the current cache, with its adapter and its rotary table, to a new one and writes its
/// number, above 0, to `cache`. The first cache is 0.
THIMBLE_SESSION_API int thimble_cache_fork(int32_t session, int32_t* cache, char* error,
                                           size_t error_size);

/// Makes a cache the current one: calls read and write the current cache.
THIMBLE_SESSION_API int thimble_cache_use(int32_t session, int32_t cache, char* error,
                                          size_t error_size);

/// Frees a cache. It must not be the current one and not 0.
THIMBLE_SESSION_API int thimble_cache_free(int32_t session, int32_t cache, char* error,
                                           size_t error_size);

#ifdef __cplusplus
}
#endif
