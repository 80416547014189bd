#pragma once

#include "thimble.h"

/// libthimble: models that embed texts. The rules of thimble.h hold here too.

#ifdef __cplusplus
extern "C" {
#endif

typedef struct thimble_embedder thimble_embedder;

/// Loads a model of embeddings. Returns null on failure.
THIMBLE_API thimble_embedder* thimble_embedder_load(const char* path,
                                                    const thimble_load_options* options,
                                                    char* error, size_t error_size);

/// The same of a file that someone signed, as thimble_load_signed().
THIMBLE_API thimble_embedder* thimble_embedder_load_signed(const char* path, const char* public_key,
                                                           const thimble_load_options* options,
                                                           char* error, size_t error_size);

/// Returns how many numbers the row of a text has.
THIMBLE_API int64_t thimble_embedder_width(const thimble_embedder* embedder);

/// Returns the most tokens of a text, with those that the model puts around it; longer ones are cut
/// at their end.
THIMBLE_API int64_t thimble_embedder_max_seq_len(const thimble_embedder* embedder);

/// Returns the number of prompts: texts that may be put before those that are embedded.
THIMBLE_API int64_t thimble_embedder_prompts(const thimble_embedder* embedder);

/// Returns the name of a prompt, from index 0 on; null if there is none. Valid as long as the
/// embedder.
THIMBLE_API const char* thimble_embedder_prompt_at(const thimble_embedder* embedder, int64_t index);

/// A text of `size` bytes.
typedef struct {
  const char* text;
  size_t size;
} thimble_text;

/// What embedding some texts has counted.
typedef struct {
  int64_t tokens; /* that were read, those around texts included */
  int64_t cut;    /* texts that were longer than the model reads */
} thimble_embedding_counts;

/// Embeds texts: `rows` gets `count` rows of thimble_embedder_width() numbers. Several texts share
/// a call of the model, without padding; a row does not depend on the others. `prompt` is the name
/// of the text before them; null: the model's default; "": none. `counts` may be null. Returns 0 on
/// success.
THIMBLE_API int thimble_embedder_run(thimble_embedder* embedder, const thimble_text* texts,
                                     int64_t count, const char* prompt, float* rows,
                                     thimble_embedding_counts* counts, char* error,
                                     size_t error_size);

/// Frees an embedder; null is ignored.
THIMBLE_API void thimble_embedder_free(thimble_embedder* embedder);

#ifdef __cplusplus
}
#endif
