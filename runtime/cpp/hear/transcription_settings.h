#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace thimble {

/// A language that a model hears.
struct Language {
  std::string code;  ///< such as "de"
  int32_t token;
};

/// A head of a layer of the decoder.
struct DecoderHead {
  size_t layer, head;
};

/// How a model writes what it hears (exporter/schemas/transcription.fbs).
struct TranscriptionSettings {
  /// Fails with a sentence if the bytes are damaged, or of another kind or version.
  static Result<TranscriptionSettings> load(const uint8_t* data, size_t size);

  /// The token of a language's code; fails if the model does not know it.
  Result<int32_t> language(const std::string& code) const;

  /// Whether the model has tokens of times and of silence.
  bool has_times() const { return no_timestamps >= 0; }
  /// Whether its language is English alone; what has no times does not name its one language.
  bool english_alone() const { return languages.empty() && has_times(); }
  /// The token of silence, in all vocabularies the one before that of no timestamps.
  int32_t no_speech() const { return no_timestamps - 1; }
  /// That of a window's begin: one for each step of time up to its end follow.
  int32_t first_time() const { return has_times() ? no_timestamps + 1 : INT32_MAX; }

  int32_t start = 0, end = 0;  ///< the tokens around every text
  int32_t transcribe = -1, translate = -1;
  int32_t no_timestamps = 0;
  int32_t blank = -1;                   ///< of states without a token; -1: a decoder writes texts
  std::vector<Language> languages;      ///< none: the model knows one
  std::vector<int32_t> suppress;        ///< tokens that are never written
  std::vector<int32_t> begin_suppress;  ///< nor as the first of a text
  /// Those whose attention tells when words were spoken, by their layers; none: nothing does.
  std::vector<DecoderHead> alignment_heads;
  size_t decoder_heads = 0;  ///< of each layer
};

}  // namespace thimble
