#pragma once

#include <stddef.h>
#include <stdint.h>

/// The runner for other languages: libthimble. Every function may be called from any thread, one at
/// a time for each runner. Text is UTF-8. A function that fails writes its sentence to `error`, cut
/// to `error_size` bytes with the closing zero. It does so for a number outside the range that is
/// given here.
///
/// No struct of this header grows: a caller that was compiled with an earlier version stays right.
/// What a later version needs beyond them comes in a struct and a function of another name.

#ifdef __cplusplus
extern "C" {
#endif

#define THIMBLE_API __attribute__((visibility("default")))

typedef struct thimble_runner thimble_runner;

/// The package's version, such as "0.1.0".
THIMBLE_API const char* thimble_version(void);

/// How a model is to run. All but the threads is for models exported with --delegate cpu.
typedef struct {
  int32_t threads;    /* 1 to 256; 0: the default */
  int32_t cache_type; /* 0: what the file says; 1: float16; 2: float32; 3: int8 */
  int32_t huge_pages; /* not 0: weights are copied into huge pages where the system has them */
} thimble_load_options;

typedef struct {
  int64_t max_new_tokens; /* 1 to INT32_MAX; 0: until the model ends or the context is full */
  float temperature;      /* 0 to 100; 0: always the most likely token */
  int32_t top_k;          /* 0 to INT32_MAX; 0: all */
  float top_p;            /* 0 to 1; 1: all */
  float min_p;            /* 0 to 1; 0: all */
  uint64_t seed;
} thimble_options;

/// Takes a piece of the answer, whole characters, `size` bytes; 0 ends the answer.
typedef int (*thimble_text_callback)(const char* text, size_t size, void* context);

/// Loads a model. Null on failure.
THIMBLE_API thimble_runner* thimble_load(const char* path, const thimble_load_options* options,
                                         char* error, size_t error_size);

/// Continues the prompt, `prompt_size` bytes; a callback takes the text. What the prompt has in
/// common with what the key/value cache holds is not computed again. 0 on success.
THIMBLE_API int thimble_generate(thimble_runner* runner, const char* prompt, size_t prompt_size,
                                 const thimble_options* options, thimble_text_callback on_text,
                                 void* context, char* error, size_t error_size);

/// Begins a chat with a model that has a chat template, or continues it: the conversation belongs
/// to the runner, is saved, restored and forked with its cache, and thimble_generate() does not
/// change it. A system message of `system_size` bytes takes the place of the one it had; 0: that
/// stays. 0 on success.
THIMBLE_API int thimble_chat_start(thimble_runner* runner, const char* system, size_t system_size,
                                   char* error, size_t error_size);

/// Answers the next message of the chat, `message_size` bytes; a callback takes the text. Where
/// the context has no room for the conversation and an answer, its oldest turns, a message and an
/// answer each, are dropped for good: how many goes to `dropped_turns`, which may be null. On
/// failure the conversation stays as it was. 0 on success.
THIMBLE_API int thimble_chat_say(thimble_runner* runner, const char* message, size_t message_size,
                                 const thimble_options* options, thimble_text_callback on_text,
                                 void* context, int64_t* dropped_turns, char* error,
                                 size_t error_size);

/// Forgets every turn of the chat; the system message stays. 0 on success.
THIMBLE_API int thimble_chat_reset(thimble_runner* runner, char* error, size_t error_size);

/// The turns of the chat that are not dropped.
THIMBLE_API int64_t thimble_chat_turns(thimble_runner* runner);

/// The statistics of the last answer as JSON, always UTF-8, until the next call with this runner.
THIMBLE_API const char* thimble_stats(thimble_runner* runner);

/// The tokens of a text, `text_size` bytes, without BOS; special tokens in it are text like any
/// other. Writes no more than `capacity` of them; returns how many there are.
THIMBLE_API int64_t thimble_encode(const thimble_runner* runner, const char* text, size_t text_size,
                                   int32_t* tokens, int64_t capacity);

/// The number of logits after a token.
THIMBLE_API int64_t thimble_vocab_size(const thimble_runner* runner);

/// The logits after each of `count` tokens from the one at `first` on, each by a call of its own as
/// in an answer; those before `first` are read as a prompt is, but for what the key/value cache
/// holds of them. `logits` takes (count - first) rows of thimble_vocab_size(). 0 on success.
THIMBLE_API int thimble_logits(thimble_runner* runner, const int32_t* tokens, int64_t count,
                               int64_t first, float* logits, char* error, size_t error_size);

/// How many tokens the key/value cache holds: prompt and answer, from the first on.
THIMBLE_API int64_t thimble_length(const thimble_runner* runner);

/// Forgets every token from `length` on; not more than it holds. Where the cache's sliding windows
/// do not reach so far back, the tokens before `length` are computed again. 0 on success.
THIMBLE_API int thimble_truncate(thimble_runner* runner, int64_t length, char* error,
                                 size_t error_size);

/// Writes the key/value cache and the chat's messages to a file. Models exported with --delegate
/// cpu. 0 on success.
THIMBLE_API int thimble_save(thimble_runner* runner, const char* path, char* error,
                             size_t error_size);

/// Continues from a file that thimble_save() wrote of the same model. 0 on success; on failure all
/// stays as it was.
THIMBLE_API int thimble_restore(thimble_runner* runner, const char* path, char* error,
                                size_t error_size);

/// Another runner of the same model, weights shared, that goes on from here with a cache of its
/// own. A runner and its forks are one in that only one of them may be called at a time. Null on
/// failure.
THIMBLE_API thimble_runner* thimble_fork(thimble_runner* runner, char* error, size_t error_size);

/// Checks the whole file, weights included. 0 when it is sound.
THIMBLE_API int thimble_verify(thimble_runner* runner, char* error, size_t error_size);

/// What a recording came to: the model's calls that it holds, and those after them for which its
/// bounds left no room.
typedef struct {
  int64_t calls;
  int64_t dropped_calls;
} thimble_recording;

/// Records ExecuTorch's profile (an ETDump) of the model's calls from now on, those of forks as
/// well: up to `max_calls` of them, INT32_MAX at most, or until `max_bytes` are full, 1 GiB at
/// most; 0: the defaults. This and thimble_stop_recording() may be called at any time, also while
/// another thread is in thimble_generate(): they wait for a call of the model that is running to
/// end. 0 on success.
THIMBLE_API int thimble_start_recording(thimble_runner* runner, int64_t max_calls,
                                        int64_t max_bytes, char* error, size_t error_size);

/// Ends the recording and writes it to a file, whole or not at all, with the model's path, the
/// processor's name, the date, and the first 1024 bytes of the last prompt. 0 on success; where
/// nothing was recorded or the path is none to write to, the sentence says so.
THIMBLE_API int thimble_stop_recording(thimble_runner* runner, const char* path,
                                       thimble_recording* recording, char* error,
                                       size_t error_size);

/// Frees the runner; null is allowed.
THIMBLE_API void thimble_free(thimble_runner* runner);

#ifdef __cplusplus
}
#endif
