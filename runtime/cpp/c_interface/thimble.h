#pragma once

#include <stddef.h>
#include <stdint.h>

/// libthimble: the runner for other languages. Every function may be called from any thread, but
/// only one at a time for each runner. Text is UTF-8. A function that fails, for example because a
/// number is out of range, writes one sentence to `error`, cut to `error_size` bytes with the
/// closing zero; a null `error` gets none. Options that are null are the defaults, a text of size 0
/// may be null; other pointers that are null are errors, or, without `error`, do nothing.
///
/// The structs of this header never change, so that callers compiled with an earlier version keep
/// working. A later version adds structs and functions with new names.

#ifdef __cplusplus
extern "C" {
#endif

#define THIMBLE_API __attribute__((visibility("default")))

typedef struct thimble_runner thimble_runner;

/// The package's version.
THIMBLE_API const char* thimble_version(void);

/// How to run a model. All options except the threads need a model exported with --delegate cpu.
typedef struct {
  int32_t threads;    /* 1 to 256; 0: the default */
  int32_t cache_type; /* 0: the file's; 1: float16; 2: float32; 3: int8; 4: int4; 5: int8-int4 */
  int32_t huge_pages; /* not 0: weights are copied into huge pages, if the system has them */
} thimble_load_options;

typedef struct {
  int64_t max_new_tokens; /* 1 to INT32_MAX; 0: until the model ends or the context is full */
  float temperature;      /* 0 to 100; 0: always the most likely token */
  int32_t top_k;          /* 0 to INT32_MAX; 0: all */
  float top_p;            /* 0 to 1; 1: all */
  float min_p;            /* 0 to 1; 0: all */
  uint64_t seed;          /* 0 is a seed too; the same gives the same text, another another */
} thimble_options;

/// Receives a piece of the answer: `size` bytes, complete characters. Returning 0 ends the answer.
typedef int (*thimble_text_callback)(const char* text, size_t size, void* context);

/// Loads a model. Returns null on failure.
THIMBLE_API thimble_runner* thimble_load(const char* path, const thimble_load_options* options,
                                         char* error, size_t error_size);

/// The same of a file, and its draft, that an Ed25519 key's owner signed in FILE.sig. `public_key`
/// is the path of a file of PEM or of the 32 bytes, or the text of the PEM; null: none is needed.
THIMBLE_API thimble_runner* thimble_load_signed(const char* path, const char* public_key,
                                                const thimble_load_options* options, char* error,
                                                size_t error_size);

/// Loads a model whose `size` bytes are in memory at `data`, which must stay until the runner and
/// its forks are freed; weights are used in place if it is aligned to 64 bytes. `name` is what
/// errors call the model. Returns null on failure.
THIMBLE_API thimble_runner* thimble_load_bytes(const void* data, size_t size, const char* name,
                                               const thimble_load_options* options, char* error,
                                               size_t error_size);

/// Returns the number of adapters that the model was exported with, kept apart from its weights.
THIMBLE_API int64_t thimble_adapters(const thimble_runner* runner);

/// Returns an adapter's name, from index 0 on; null if there is none. Valid as long as the runner.
THIMBLE_API const char* thimble_adapter_at(const thimble_runner* runner, int64_t index);

/// Returns the adapter that the runner runs with; "": none. Valid until thimble_use_adapter().
THIMBLE_API const char* thimble_adapter(const thimble_runner* runner);

/// Makes the runner run with an adapter; "": with none. The key/value cache holds what was computed
/// with the adapter before, so it is then empty; the chat's messages stay. Forks keep the adapter,
/// and each can change its own. Returns 0 on success; on failure nothing changes.
THIMBLE_API int thimble_use_adapter(thimble_runner* runner, const char* name, char* error,
                                    size_t error_size);

/// Makes the runner verify guesses of the next tokens, several in one call of the model: the same
/// text, sooner where guesses are right. `draft` is "ngram", which looks for repetitions in the
/// text, or the path of a smaller model of the same tokenizer; "": none, as after the load. Needs a
/// model exported with --delegate cpu. Forks keep the draft; the requests of an engine have "ngram"
/// each for itself, and an engine refuses a model. Returns 0; on failure nothing changes.
THIMBLE_API int thimble_use_draft(thimble_runner* runner, const char* draft, char* error,
                                  size_t error_size);

/// Continues a prompt of `prompt_size` bytes; a callback receives the text. A prefix that the
/// key/value cache already has is not computed again. Returns 0 on success.
THIMBLE_API int thimble_generate(thimble_runner* runner, const char* prompt, size_t prompt_size,
                                 const thimble_options* options, thimble_text_callback on_text,
                                 void* context, char* error, size_t error_size);

/// Ends answers, from any thread and at any time before thimble_free(), also while another function
/// runs: while `interrupted` is not 0, thimble_generate() and thimble_chat_say() end before their
/// next call of the model, successfully, and the statistics' stop_reason is "interrupted". It stays
/// until it is set to 0, as it is after the load and in a new fork. A model exported with
/// --delegate cpu reads at most 256 tokens of a prompt in a call; what was read stays in the cache.
THIMBLE_API void thimble_interrupt(thimble_runner* runner, int32_t interrupted);

/// What thimble_constrain() can make an answer be.
enum {
  THIMBLE_ANY_TEXT = 0,
  THIMBLE_JSON_SCHEMA = 1, /* JSON that a schema describes */
  THIMBLE_REGEX = 2,       /* a text that a regular expression matches as a whole */
  THIMBLE_CHOICE = 3,      /* one of the strings of a JSON array */
  THIMBLE_GRAMMAR = 4,     /* a text of a GBNF grammar, llama.cpp's notation */
  THIMBLE_RELAX = 16 /* added to these: what is not supported of schemas is left out, and told by
                        the statistics' "left_out", a sentence each; otherwise it is an error */
};

/// Constrains the answers of thimble_generate() and thimble_chat_say() from the next one on: every
/// answer that ends by itself is such a text; one that ends earlier is the beginning of one, and
/// the statistics' "incomplete" tells it. THIMBLE_ANY_TEXT ends that, and needs no text. Setting
/// the same constraint again costs nothing. Forks begin without one. Returns 0 on success; on
/// failure the constraint does not change.
THIMBLE_API int thimble_constrain(thimble_runner* runner, int32_t kind, const char* text,
                                  size_t text_size, char* error, size_t error_size);

/// Returns what its user should know about the constraint, one sentence a line, such as that oneOf
/// is treated as anyOf; "" if nothing. Valid until the next thimble_constrain().
THIMBLE_API const char* thimble_constraint_notes(const thimble_runner* runner);

/// Settings of an answer. A new one has those that change nothing.
typedef struct thimble_settings thimble_settings;
THIMBLE_API thimble_settings* thimble_settings_new(void);

/// Frees settings; null is allowed.
THIMBLE_API void thimble_settings_free(thimble_settings* settings);

/// What thimble_settings_number() can set, as a JSON array of objects: "name", "type" ("number",
/// "integer" or "boolean"), "low", "high", "default" and "needs" (what gives it its effect).
THIMBLE_API const char* thimble_answer_numbers(void);

/// Sets a number by its name. Returns 0 on success; on failure nothing changes. The numbers of
/// thimble_options may be set too: what is set here counts.
/// runtime/README.md tells what each does; logprobs is the `top` of thimble_settings_tokens().
THIMBLE_API int thimble_settings_number(thimble_settings* settings, const char* name, double value,
                                        char* error, size_t error_size);

/// Returns how the model's authors sample: a JSON object of thimble_settings_number()'s names and
/// values, or "{}". No answer uses it unless it is set. Valid as long as the runner.
THIMBLE_API const char* thimble_file_settings(thimble_runner* runner);

/// Makes a callback receive the special tokens of answers, except the one that ends an answer: each
/// as its text, between the texts before and behind it, in place of special_text. So a special
/// token can be told from text that spells it; no stop text has one in it. Returning 0 ends the
/// answer. A null callback ends that.
THIMBLE_API void thimble_settings_special(thimble_settings* settings,
                                          thimble_text_callback on_special, void* context);

/// Makes a callback be asked while thimble_engine_submit_with(), or thimble_constrain() after
/// thimble_use_settings(), compiles a constraint: 0 makes the call fail. Null ends that.
typedef int (*thimble_wanted_callback)(void* context);
THIMBLE_API void thimble_settings_wanted(thimble_settings* settings,
                                         thimble_wanted_callback is_wanted, void* context);

/// Adds a number from -100 to 100 to the logit of a token, in place of one set before. -100 bans
/// the token where any other may come. Returns 0 on success.
THIMBLE_API int thimble_settings_bias(thimble_settings* settings, int32_t token, double value,
                                      char* error, size_t error_size);

/// Adds a text of `text_size` bytes, at least one, at which answers end: neither it nor what
/// follows is passed on. Of several, the one that is complete first counts. Returns 0 on success.
THIMBLE_API int thimble_settings_stop(thimble_settings* settings, const char* text,
                                      size_t text_size, char* error, size_t error_size);

/// Sets a text that the answer may repeat, such as a file that it changes: an engine, and nothing
/// else, verifies guesses from it, as those of the draft "ngram". Returns 0 on success.
THIMBLE_API int thimble_settings_prediction(thimble_settings* settings, const char* text,
                                            size_t text_size, char* error, size_t error_size);

/// A token, the natural logarithm of its probability, and its `size` bytes: what it adds to a text,
/// or the text of a special token.
typedef struct {
  int32_t token;
  double logprob;
  const char* text;
  size_t size;
} thimble_token;

/// Receives a token of an answer and the most likely ones in its place, the most likely first; the
/// probabilities are those of the model's logits as they are. Pointers are valid during the call.
typedef void (*thimble_token_callback)(const thimble_token* chosen, const thimble_token* top,
                                       size_t top_count, void* context);

/// Makes a callback receive the tokens of answers, each before the text that shows it, with the
/// `top` most likely, 0 to 20. It gets neither the token that ends an answer nor those of a stop
/// text. A null callback ends that. Returns 0 on success.
THIMBLE_API int thimble_settings_tokens(thimble_settings* settings, int32_t top,
                                        thimble_token_callback on_token, void* context, char* error,
                                        size_t error_size);

/// Makes thimble_generate() and thimble_chat_say() use settings, as they are now, from the next
/// answer on; null: those that change nothing, as after the load and in a new fork.
THIMBLE_API void thimble_use_settings(thimble_runner* runner, const thimble_settings* settings);

/// Starts or continues a chat; the model must have a chat template. The conversation belongs to the
/// runner: it is saved, restored and forked with the cache, and thimble_generate() does not change
/// it. A system message of `system_size` bytes replaces the previous one; with 0, that one stays.
/// Returns 0 on success.
THIMBLE_API int thimble_chat_start(thimble_runner* runner, const char* system, size_t system_size,
                                   char* error, size_t error_size);

/// Answers the next message of the chat, `message_size` bytes; a callback receives the text:
/// without reasoning, which special tokens or <think> set off, unless they are asked for. If
/// the context has no room for the conversation and an answer, the oldest turns (a message and its
/// answer) are dropped permanently; their number is written to `dropped_turns`, which may be null.
/// On failure the conversation does not change. Returns 0 on success.
THIMBLE_API int thimble_chat_say(thimble_runner* runner, const char* message, size_t message_size,
                                 const thimble_options* options, thimble_text_callback on_text,
                                 void* context, int64_t* dropped_turns, char* error,
                                 size_t error_size);

/// Adds a turn that was had before to the chat, such as one that a program kept: a message and its
/// answer. Nothing is computed before the next message. Returns 0 on success.
THIMBLE_API int thimble_chat_add(thimble_runner* runner, const char* message, size_t message_size,
                                 const char* answer, size_t answer_size, char* error,
                                 size_t error_size);

/// A runner may have several conversations. One is current, number 0 after the load and in a fork:
/// functions without a number are about it; it is saved, restored and forked.
/// Begins another, as thimble_chat_start() does; it becomes current. It has the messages that the
/// runner was last restored or forked with. Returns its number, above 0; -1 on failure.
THIMBLE_API int64_t thimble_chat_begin(thimble_runner* runner, const char* system,
                                       size_t system_size, char* error, size_t error_size);

/// Makes a conversation current. Returns 0 on success.
THIMBLE_API int thimble_chat_choose(thimble_runner* runner, int64_t conversation, char* error,
                                    size_t error_size);

/// Forgets a conversation; the current one once another becomes current.
THIMBLE_API void thimble_chat_end(thimble_runner* runner, int64_t conversation);

/// Removes every turn of the chat; the system message stays. Returns 0 on success.
THIMBLE_API int thimble_chat_reset(thimble_runner* runner, char* error, size_t error_size);

/// Returns the number of turns of the chat, without dropped ones.
THIMBLE_API int64_t thimble_chat_turns(thimble_runner* runner);

/// The same of any conversation, which does not become current; -1: there is none of that number.
THIMBLE_API int64_t thimble_chat_turns_of(thimble_runner* runner, int64_t conversation);

/// Returns the last answer's statistics as JSON in UTF-8; valid until the runner's next call.
THIMBLE_API const char* thimble_stats(thimble_runner* runner);

/// Encodes a text of `text_size` bytes, without BOS; special tokens in it are plain text. Writes at
/// most `capacity` tokens; returns the number of all tokens.
THIMBLE_API int64_t thimble_encode(const thimble_runner* runner, const char* text, size_t text_size,
                                   int32_t* tokens, int64_t capacity);

/// A part of a text to encode.
typedef struct {
  const char* text;
  size_t size;
  int32_t literal; /* not 0: may contain special tokens; 0: they are plain text in it */
} thimble_piece;

/// As thimble_encode(), of `count` pieces that are read as one text; -1 on failure.
THIMBLE_API int64_t thimble_encode_pieces(const thimble_runner* runner, const thimble_piece* pieces,
                                          int64_t count, int32_t* tokens, int64_t capacity,
                                          char* error, size_t error_size);

/// Returns the bytes that a token adds to a text, or the text of a special token, and writes their
/// number to `size`: 0 for a token that is not in the vocabulary. Valid as long as the runner.
THIMBLE_API const char* thimble_token_text(const thimble_runner* runner, int32_t token,
                                           size_t* size);

/// Returns the model's chat template as JSON, {"source": jinja2, "bos_token", "eos_token": texts it
/// takes (null: undefined), "special_tokens": [all], "tokens": {those it calls by other names},
/// "tool_source": the template that takes its place where functions are given (null: itself)}, or
/// "" if the file keeps none. Valid as long as the runner.
THIMBLE_API const char* thimble_chat_template(thimble_runner* runner);

/// Returns the number of logits after a token.
THIMBLE_API int64_t thimble_vocab_size(const thimble_runner* runner);

/// Computes the logits after each of `count` tokens from index `first` on, as in an answer: the CPU
/// delegate gives up to 64 rows in a call, bit for bit those of a call for each. The tokens before
/// are processed as a prompt; those in the key/value cache are not computed again. `logits` has
/// room for (count - first) rows of thimble_vocab_size(). Returns 0 on success.
THIMBLE_API int thimble_logits(thimble_runner* runner, const int32_t* tokens, int64_t count,
                               int64_t first, float* logits, char* error, size_t error_size);

/// The same of `rows` tokens alone, a part of a text whose logits do not fit memory. All tokens of
/// the text are given with each part, because its length may choose the rotary table (LongRoPE).
THIMBLE_API int thimble_logit_rows(thimble_runner* runner, const int32_t* tokens, int64_t count,
                                   int64_t first, int64_t rows, float* logits, char* error,
                                   size_t error_size);

/// Returns the number of tokens in the key/value cache, prompt and answer.
THIMBLE_API int64_t thimble_length(const thimble_runner* runner);

/// Removes every token from `length` on, thimble_length() at most; the others are computed again if
/// sliding windows, or the rotary table of so short a text, require it. Returns 0 on success.
THIMBLE_API int thimble_truncate(thimble_runner* runner, int64_t length, char* error,
                                 size_t error_size);

/// Writes the key/value cache and the chat's messages to a file. Needs a model exported with
/// --delegate cpu. Returns 0 on success.
THIMBLE_API int thimble_save(thimble_runner* runner, const char* path, char* error,
                             size_t error_size);

/// Resumes from a file that thimble_save() wrote with the same model and the same adapter. Returns
/// 0 on success; on failure nothing changes.
THIMBLE_API int thimble_restore(thimble_runner* runner, const char* path, char* error,
                                size_t error_size);

/// Returns another runner of the same model, which shares the weights and continues from here with
/// its own cache. Only one of a runner and its forks may be called at a time. Null on failure.
THIMBLE_API thimble_runner* thimble_fork(thimble_runner* runner, char* error, size_t error_size);

/// Checks the complete file, including the weights. Returns 0 if it is not damaged.
THIMBLE_API int thimble_verify(thimble_runner* runner, char* error, size_t error_size);

/// How many calls of the model a recording has, and how many later ones did not fit its limits.
typedef struct {
  int64_t calls;
  int64_t dropped_calls;
} thimble_recording;

/// Starts to record ExecuTorch's profile (an ETDump) of the model's calls, including those of
/// forks: up to `max_calls` calls, at most INT32_MAX, or `max_bytes` bytes, at most 1 GiB; 0: the
/// defaults. This function and thimble_stop_recording() may be called at any time, also while
/// another thread is in thimble_generate(): they wait for the end of a running call of the model.
/// Returns 0 on success.
THIMBLE_API int thimble_start_recording(thimble_runner* runner, int64_t max_calls,
                                        int64_t max_bytes, char* error, size_t error_size);

/// Ends the recording and writes it to a file, completely or not at all, with the model's path, the
/// processor's name, the date, and the first 1024 bytes of the last prompt. Returns 0 on success.
THIMBLE_API int thimble_stop_recording(thimble_runner* runner, const char* path,
                                       thimble_recording* recording, char* error,
                                       size_t error_size);

/// Several requests at once, in shared calls of the model. Each gets the text that it would get
/// alone. thimble_engine_submit() and thimble_engine_cancel() may be called from any thread, also
/// from callbacks; one thread at a time may call thimble_engine_step().
typedef struct thimble_engine thimble_engine;

typedef struct {
  int32_t sequences;   /* that run at once, each with a key/value cache; 1 to 32; 0: 8 */
  int32_t queue;       /* requests that may wait for one of them; 0: 64 */
  int32_t prompt_rows; /* the most tokens of prompts in a call, fewer beside answers; 0: 64 */
} thimble_engine_options;

typedef struct {
  const int32_t* tokens; /* the text to continue, `count` tokens with BOS */
  int64_t count;
  thimble_options options;
  int32_t constraint_kind; /* of THIMBLE_ANY_TEXT ...; as in thimble_constrain() */
  const char* constraint;  /* its text, `constraint_size` bytes */
  size_t constraint_size;
} thimble_request;

/// Is called once when a request has ended: `error` is null, or the sentence of why it failed;
/// `stats` are the answer's statistics as JSON. Both are valid during the call.
typedef void (*thimble_end_callback)(const char* error, const char* stats, void* context);

/// Opens an engine for a runner's model, with the runner's adapter. The model must be exported with
/// --delegate cpu. Until the engine is freed, the runner must not be, and neither it nor its forks
/// be used, except for thimble_encode...() and thimble_chat_template(). Returns null on failure.
THIMBLE_API thimble_engine* thimble_engine_open(thimble_runner* runner,
                                                const thimble_engine_options* options, char* error,
                                                size_t error_size);

/// Accepts a request, whose text `on_text` receives and whose end `on_end`, both called by
/// thimble_engine_step(). Returns its number, above 0; 0 on failure, for example because the queue
/// is full, and then no callback is called. Pointers are not used after the return.
THIMBLE_API int64_t thimble_engine_submit(thimble_engine* engine, const thimble_request* request,
                                          thimble_text_callback on_text,
                                          thimble_end_callback on_end, void* context, char* error,
                                          size_t error_size);

/// The same with settings, which are copied; null: those that change nothing. And with an adapter:
/// "": none; null: that of the runner when the engine was opened.
THIMBLE_API int64_t thimble_engine_submit_with(thimble_engine* engine,
                                               const thimble_request* request,
                                               const thimble_settings* settings,
                                               const char* adapter, thimble_text_callback on_text,
                                               thimble_end_callback on_end, void* context,
                                               char* error, size_t error_size);

/// Ends a request, as interrupted, with the next step. A number that is not at work is ignored.
THIMBLE_API void thimble_engine_cancel(thimble_engine* engine, int64_t request);

/// Calls the model once for all requests. Returns how many are left; -1, memory ran out: end them.
THIMBLE_API int64_t thimble_engine_step(thimble_engine* engine);

/// Ends every request, as interrupted, and frees the engine; null is allowed.
THIMBLE_API void thimble_engine_free(thimble_engine* engine);

/// As thimble_encode(), with BOS if the tokenizer adds one, as thimble_generate(); -1 on failure.
THIMBLE_API int64_t thimble_encode_prompt(const thimble_runner* runner, const char* prompt,
                                          size_t prompt_size, int32_t* tokens, int64_t capacity,
                                          char* error, size_t error_size);

/// Frees the runner; null is allowed.
THIMBLE_API void thimble_free(thimble_runner* runner);

#ifdef __cplusplus
}
#endif
