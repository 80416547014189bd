#pragma once

#include "thimble.h"

/// libthimble: pictures for language models that see. The rules of thimble.h hold here too.

#ifdef __cplusplus
extern "C" {
#endif

/// A picture. It is a PNG, JPEG, WebP or PPM file of `size` bytes in memory where width and height
/// are 0; else rows of pixels, each red, green and blue, of 3 * width * height bytes.
typedef struct {
  const uint8_t* data;
  size_t size;
  int64_t width;
  int64_t height;
} thimble_picture;

/// Returns how the model is asked about pictures, as JSON: `place`, the text that stands for one in
/// a prompt, and `before` and `after`, the model's template around a question, which may be "".
/// `before_text` stands in front of one whose text comes first. "" if the model does not see. Valid
/// until the next call.
THIMBLE_API const char* thimble_picture_form(thimble_runner* runner);

/// Receives a tile of a picture, as the input of the model's method `vision_encoder`: numbers of
/// this shape, both valid during the call. Returning 0 ends the work.
typedef int (*thimble_tile_callback)(const float* numbers, const int64_t* shape, size_t rank,
                                     void* context);

/// Passes on the tiles that a model's method `vision_encoder` reads of a picture, in order; the
/// last one is the whole.
/// \param settings the blob `thimble.picture` of the model's file. Returns 0, or 1 on failure.
THIMBLE_API int thimble_picture_tiles(const uint8_t* settings, size_t settings_size,
                                      const thimble_picture* picture, thimble_tile_callback on_tile,
                                      void* context, char* error, size_t error_size);

/// As thimble_generate(), of a prompt with pictures. A prompt that has a place for each is
/// continued, as is any without pictures; else one without places is a question. Equal pictures are
/// computed once, where they are remembered: the last ones up to 64 MiB. Returns 0, or 1 on
/// failure.
THIMBLE_API int thimble_generate_with_pictures(thimble_runner* runner, const char* prompt,
                                               size_t prompt_size, const thimble_picture* pictures,
                                               size_t count, const thimble_options* options,
                                               thimble_text_callback on_text, void* context,
                                               char* error, size_t error_size);

/// As thimble_chat_say(), of a message with pictures before it. The conversation keeps them.
THIMBLE_API int thimble_chat_say_with_pictures(thimble_runner* runner, const char* message,
                                               size_t message_size, const thimble_picture* pictures,
                                               size_t count, const thimble_options* options,
                                               thimble_text_callback on_text, void* context,
                                               int64_t* dropped_turns, char* error,
                                               size_t error_size);

/// Pictures that a text has, in order. They are remembered until they are freed.
typedef struct thimble_seen thimble_seen;

/// Takes `count` pictures; what the model makes of them is computed when a text with them is read.
/// May be called while an engine is open. Returns null on failure, such as a model that does not
/// see.
THIMBLE_API thimble_seen* thimble_see(thimble_runner* runner, const thimble_picture* pictures,
                                      size_t count, char* error, size_t error_size);

/// As thimble_encode_pieces(), of pieces whose literal ones have a place for each picture. Tokens
/// below 0 are rows of pictures: thimble_engine_submit() takes them while the pictures are not
/// freed.
THIMBLE_API int64_t thimble_encode_seen(const thimble_runner* runner, const thimble_seen* seen,
                                        const thimble_piece* pieces, int64_t count, int32_t* tokens,
                                        int64_t capacity, char* error, size_t error_size);

THIMBLE_API void thimble_seen_free(thimble_seen* seen);

#ifdef __cplusplus
}
#endif
