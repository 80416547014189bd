#pragma once

#include "thimble.h"

/// libthimble: models that hear. The rules of thimble.h hold here too.

#ifdef __cplusplus
extern "C" {
#endif

typedef struct thimble_transcriber thimble_transcriber;

/// How a sample is stored, in the order of this machine's bytes. Integers span -1 to 1 by their
/// type's range.
enum {
  THIMBLE_SOUND_UINT8 = 0,
  THIMBLE_SOUND_INT16 = 1,
  THIMBLE_SOUND_INT24 = 2, /* three bytes */
  THIMBLE_SOUND_INT32 = 3,
  THIMBLE_SOUND_FLOAT32 = 4,
  THIMBLE_SOUND_FLOAT64 = 5
};

/// Sound: frames of one sample for each channel, one behind the other.
typedef struct {
  const void* samples;
  uint64_t frames;
  int32_t type;     /* THIMBLE_SOUND_... */
  int32_t channels; /* 1 to 64: their mean is heard */
  int32_t rate;     /* frames per second, 1 to 1000000 */
} thimble_sound;

/// How a sound becomes text. All zero: as the model's authors intend it.
typedef struct {
  const char* language; /* its code, such as "de"; null or "": the model tells */
  const char* prompt;   /* text that the sound follows, such as names in it; null: none */
  int32_t translate;    /* 1: into English */
  int32_t timestamps;   /* 1: segments are what is said between two times, not windows; 2: and their
                           words have times too */
  int32_t no_fallback;  /* 1: text that repeats itself or is unlikely is not written again */
  double temperature;   /* 0 to 1; 0: the likeliest tokens, and higher ones where these fail */
  uint64_t seed;        /* of what is sampled */
} thimble_transcribe_options;

/// A word of a segment.
typedef struct {
  double start, end; /* seconds of the sound */
  const char* text;  /* UTF-8, with the space that it begins with */
  size_t size;       /* bytes of it */
} thimble_sound_word;

/// A part of a sound's text.
typedef struct {
  double start, end;               /* seconds of the sound */
  double window;                   /* where the window began that it is of */
  const char* text;                /* UTF-8, with the space that it begins with */
  size_t size;                     /* bytes of it */
  const int32_t* tokens;           /* with those of times */
  size_t count;                    /* of them */
  double temperature;              /* at which its window's text was written */
  double avg_logprob;              /* of that text's tokens */
  double compression_ratio;        /* of it; high if it repeats itself */
  double no_speech_prob;           /* that the window is silence */
  const thimble_sound_word* words; /* if the options ask for them */
  size_t word_count;
} thimble_sound_segment;

/// Receives a segment, which is valid during the call. Returning 0 ends the work.
typedef int (*thimble_segment_callback)(const thimble_sound_segment* segment, void* context);

/// Loads a model that hears. Returns null on failure.
THIMBLE_API thimble_transcriber* thimble_transcriber_load(const char* path,
                                                          const thimble_load_options* options,
                                                          char* error, size_t error_size);

/// The same of a file that someone signed, as thimble_load_signed().
THIMBLE_API thimble_transcriber* thimble_transcriber_load_signed(
    const char* path, const char* public_key, const thimble_load_options* options, char* error,
    size_t error_size);

/// Returns the number of languages that the model knows by name; 0: it knows one.
THIMBLE_API int64_t thimble_transcriber_languages(const thimble_transcriber* transcriber);

/// Returns the code of a language, from index 0 on; null if there is none. Valid as long as the
/// transcriber.
THIMBLE_API const char* thimble_transcriber_language_at(const thimble_transcriber* transcriber,
                                                        int64_t index);

/// A file of sound that was read.
typedef struct thimble_sound_file thimble_sound_file;

/// Reads the bytes of a file, which must stay: WAV is used in place; FLAC and MP3 are decoded,
/// where the library was built with dr_libs. `sound` gets what is in it, and is valid until the
/// file is closed. More than `most_seconds` are refused before they are decoded; 0: no limit.
/// Returns null on failure.
THIMBLE_API thimble_sound_file* thimble_sound_open(const void* bytes, size_t size,
                                                   double most_seconds, thimble_sound* sound,
                                                   char* error, size_t error_size);

/// Frees a file; null is ignored.
THIMBLE_API void thimble_sound_close(thimble_sound_file* file);

/// Writes a sound's text: calls `on_segment` with each part as soon as it is written. Memory does
/// not grow with the sound's length. One thread at a time may call it.
/// `options` may be null. `language` gets the code of the sound's language, at most
/// `language_size` bytes with the zero behind it: "" if the model knows one that its
/// file does not name; it may be null.
/// Returns 0 on success, also when the work was ended early.
THIMBLE_API int thimble_transcriber_run(thimble_transcriber* transcriber,
                                        const thimble_sound* sound,
                                        const thimble_transcribe_options* options,
                                        thimble_segment_callback on_segment, void* context,
                                        char* language, size_t language_size, char* error,
                                        size_t error_size);

/// Kinds of subtitles.
enum { THIMBLE_SUBTITLES_SRT = 0, THIMBLE_SUBTITLES_VTT = 1 };

/// Writes a file of subtitles, piece by piece: a block for each segment's start, end and text.
/// Returns 0 on success, also when on_text ended the work.
THIMBLE_API int thimble_subtitles(int32_t kind, const thimble_sound_segment* segments, size_t count,
                                  thimble_text_callback on_text, void* context, char* error,
                                  size_t error_size);

/// A sound that arrives in pieces, of a model that reads it so.
typedef struct thimble_sound_stream thimble_sound_stream;

/// Receives the text so far of the last seconds, which the next one replaces, or their final one.
/// The segment, which may have no text, is valid during the call. Returning 0 ends the work.
typedef int (*thimble_part_callback)(const thimble_sound_segment* segment, int32_t is_final,
                                     void* context);

/// Begins a sound. The transcriber does no other work until it is closed, and must outlive it.
/// `form` says how samples are stored: its own samples and frames have no effect. `step` is how
/// many seconds of sound come from one text to the next, 0.02 to 60. `options` may be null; the
/// model may not know all of them. Fails if the model reads whole sounds alone. Returns null on
/// failure.
THIMBLE_API thimble_sound_stream* thimble_sound_stream_open(
    thimble_transcriber* transcriber, const thimble_sound* form,
    const thimble_transcribe_options* options, double step, thimble_part_callback on_part,
    void* context, char* error, size_t error_size);

/// Takes the next frames, which are copied, and calls back with the texts of what is complete of
/// them. One thread at a time may call it. Returns 0 on success.
THIMBLE_API int thimble_sound_stream_feed(thimble_sound_stream* stream, const void* samples,
                                          uint64_t frames, char* error, size_t error_size);

/// Ends the sound: calls back with the final text of its rest. Returns 0 on success.
THIMBLE_API int thimble_sound_stream_finish(thimble_sound_stream* stream, char* error,
                                            size_t error_size);

/// Frees a stream; null is ignored.
THIMBLE_API void thimble_sound_stream_close(thimble_sound_stream* stream);

/// From any thread: ends the work after the next token, and each later one, until it is called
/// with 0.
THIMBLE_API void thimble_transcriber_interrupt(thimble_transcriber* transcriber, int32_t interrupt);

/// Frees a transcriber; null is ignored.
THIMBLE_API void thimble_transcriber_free(thimble_transcriber* transcriber);

#ifdef __cplusplus
}
#endif
