#include "c_interface/thimble_hear.h"

#include <atomic>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c_interface/load_options.h"
#include "c_interface/shared.h"
#include "hear/subtitles.h"
#include "hear/transcriber.h"
#include "hear/transcript_stream.h"
#include "sound/pcm.h"
#include "sound/sound_file.h"

using thimble::check;
using thimble::first_error;
using thimble::given;
using thimble::guarded;
using thimble::report;
using thimble::run_guarded;
using thimble::Status;

struct thimble_transcriber {
  std::unique_ptr<thimble::Transcriber> transcriber;
  std::atomic<bool> interrupted{false};
};

struct thimble_sound_file {
  thimble::SoundFile file;
};

struct thimble_sound_stream {
  std::unique_ptr<thimble::TranscriptStream> stream;
};

namespace {

constexpr thimble_transcribe_options kTranscribeDefaults = {nullptr, nullptr, 0, 0, 0, 0, 0};

constexpr uint64_t kMostFrames = uint64_t{1} << 30;  // of a piece
constexpr double kLeastStep = 0.02, kMostStep = 60;  // seconds

Status check_form(const thimble_sound& sound) {
  return first_error(
      {check<int32_t>("type", sound.type, THIMBLE_SOUND_UINT8, THIMBLE_SOUND_FLOAT64),
       check<int32_t>("channels", sound.channels, 1, thimble::kMostChannels),
       check<int32_t>("rate", sound.rate, 1, thimble::kMostRate)});
}

Status check_sound(const thimble_sound& sound) {
  return first_error({given({{"the sound's samples", sound.samples != nullptr}}), check_form(sound),
                      check<uint64_t>("frames", sound.frames, 1, INT64_MAX)});
}

Status check_options(const thimble_transcribe_options& options) {
  return first_error({check<double>("temperature", options.temperature, 0, 1),
                      check<int32_t>("timestamps", options.timestamps, 0, 2)});
}

thimble::Pcm to_pcm(const thimble_sound& sound) {
  thimble::Pcm pcm;
  pcm.type = static_cast<thimble::SampleType>(sound.type);
  pcm.channels = sound.channels;
  pcm.rate = sound.rate;
  pcm.frames = sound.frames;
  pcm.data = static_cast<const uint8_t*>(sound.samples);
  return pcm;
}

thimble::TranscribeOptions to_options(const thimble_transcribe_options& options,
                                      const std::atomic<bool>& interrupted) {
  thimble::TranscribeOptions how;
  how.language = options.language == nullptr ? "" : options.language;
  how.prompt = options.prompt == nullptr ? "" : options.prompt;
  how.translate = options.translate != 0;
  how.timestamps = options.timestamps != 0;
  how.words = options.timestamps == 2;
  how.fallback = options.no_fallback == 0;
  how.temperature = options.temperature;
  how.seed = options.seed;
  how.interrupted = &interrupted;
  return how;
}

thimble_sound_segment to_c(const thimble::Segment& segment,
                           std::vector<thimble_sound_word>* words) {
  for (const thimble::SpokenWord& word : segment.words) {
    words->push_back({word.begin_s, word.end_s, word.text.data(), word.text.size()});
  }
  const thimble::TextScores& scores = segment.scores;
  return {segment.begin_s,       segment.end_s,
          segment.window_s,      segment.text.data(),
          segment.text.size(),   segment.tokens.data(),
          segment.tokens.size(), scores.temperature,
          scores.avg_logprob,    scores.compression_ratio,
          scores.no_speech_prob, words->data(),
          words->size()};
}

}  // namespace

thimble_transcriber* thimble_transcriber_load(const char* path, const thimble_load_options* options,
                                              char* error, size_t error_size) {
  return thimble_transcriber_load_signed(path, nullptr, options, error, error_size);
}

thimble_transcriber* thimble_transcriber_load_signed(const char* path, const char* public_key,
                                                     const thimble_load_options* options,
                                                     char* error, size_t error_size) {
  return guarded(
      static_cast<thimble_transcriber*>(nullptr), error, error_size, [&]() -> thimble_transcriber* {
        const auto load = thimble::to_load(options, public_key);
        const Status right =
            thimble::first_error({given({{"path", path != nullptr}}), load.status()});
        if (report(right, error, error_size) != 0) return nullptr;
        auto loaded = thimble::Transcriber::load(thimble::PteFile::open(path, load->signer), *load);
        if (report(loaded.status(), error, error_size) != 0) return nullptr;
        auto* transcriber = new thimble_transcriber;
        transcriber->transcriber = std::move(*loaded);
        return transcriber;
      });
}

int64_t thimble_transcriber_languages(const thimble_transcriber* transcriber) {
  if (transcriber == nullptr) return 0;
  return static_cast<int64_t>(transcriber->transcriber->languages().size());
}

const char* thimble_transcriber_language_at(const thimble_transcriber* transcriber, int64_t index) {
  if (index < 0 || index >= thimble_transcriber_languages(transcriber)) return nullptr;
  return transcriber->transcriber->languages()[static_cast<size_t>(index)].code.c_str();
}

thimble_sound_file* thimble_sound_open(const void* bytes, size_t size, double most_seconds,
                                       thimble_sound* sound, char* error, size_t error_size) {
  return guarded(
      static_cast<thimble_sound_file*>(nullptr), error, error_size, [&]() -> thimble_sound_file* {
        constexpr double kNoLimit = std::numeric_limits<double>::infinity();
        Status status =
            given({{"bytes", bytes != nullptr || size == 0}, {"sound", sound != nullptr}});
        if (status.ok()) status = check<double>("most_seconds", most_seconds, 0, kNoLimit);
        if (report(status, error, error_size) != 0) return nullptr;
        auto read = thimble::read_sound(static_cast<const uint8_t*>(bytes), size, "the sound",
                                        most_seconds == 0 ? kNoLimit : most_seconds);
        if (report(read.status(), error, error_size) != 0) return nullptr;
        auto file = std::make_unique<thimble_sound_file>();
        file->file = std::move(*read);
        const thimble::Pcm& pcm = file->file.pcm;
        *sound = {pcm.data, pcm.frames, static_cast<int32_t>(pcm.type), pcm.channels, pcm.rate};
        return file.release();
      });
}

void thimble_sound_close(thimble_sound_file* file) { delete file; }

int thimble_transcriber_run(thimble_transcriber* transcriber, const thimble_sound* sound,
                            const thimble_transcribe_options* options,
                            thimble_segment_callback on_segment, void* context, char* language,
                            size_t language_size, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const thimble_transcribe_options& chosen = options == nullptr ? kTranscribeDefaults : *options;
    Status status = given({{"transcriber", transcriber != nullptr},
                           {"sound", sound != nullptr},
                           {"on_segment", on_segment != nullptr}});
    if (status.ok()) status = check_sound(*sound);
    if (status.ok()) status = check_options(chosen);
    if (!status.ok()) return status;
    thimble::TranscribeEvents events;
    events.on_segment = [&](const thimble::Segment& segment) {
      std::vector<thimble_sound_word> words;
      const thimble_sound_segment given = to_c(segment, &words);
      return on_segment(&given, context) != 0;
    };
    const auto transcript = transcriber->transcriber->transcribe(
        to_pcm(*sound), to_options(chosen, transcriber->interrupted), events);
    if (!transcript.ok()) return transcript.status();
    if (language != nullptr) {
      std::snprintf(language, language_size, "%s", transcript->language.c_str());
    }
    return {};
  });
}

int thimble_subtitles(int32_t kind, const thimble_sound_segment* segments, size_t count,
                      thimble_text_callback on_text, void* context, char* error,
                      size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status status = first_error(
        {given({{"segments", segments != nullptr || count == 0}, {"on_text", on_text != nullptr}}),
         check<int32_t>("kind", kind, THIMBLE_SUBTITLES_SRT, THIMBLE_SUBTITLES_VTT)});
    if (!status.ok()) return status;
    const auto form = static_cast<thimble::Subtitles>(kind);
    const auto tell = thimble::to_callback(on_text, context);
    bool wanted = tell(begin_of(form));
    for (size_t i = 0; i < count && wanted; ++i) {
      const thimble_sound_segment& one = segments[i];
      wanted = tell(subtitle(form, i, one.start, one.end, std::string(one.text, one.size)));
    }
    return {};
  });
}

thimble_sound_stream* thimble_sound_stream_open(thimble_transcriber* transcriber,
                                                const thimble_sound* form,
                                                const thimble_transcribe_options* options,
                                                double step, thimble_part_callback on_part,
                                                void* context, char* error, size_t error_size) {
  return guarded(
      static_cast<thimble_sound_stream*>(nullptr), error, error_size,
      [&]() -> thimble_sound_stream* {
        const auto& chosen = options == nullptr ? kTranscribeDefaults : *options;
        Status status = given({{"transcriber", transcriber != nullptr},
                               {"form", form != nullptr},
                               {"on_part", on_part != nullptr}});
        if (status.ok()) status = check_form(*form);
        if (status.ok()) status = check_options(chosen);
        if (status.ok()) status = check<double>("step", step, kLeastStep, kMostStep);
        if (report(status, error, error_size) != 0) return nullptr;
        const auto tell = [on_part, context](const thimble::Segment& segment, bool is_final) {
          std::vector<thimble_sound_word> words;
          const thimble_sound_segment given = to_c(segment, &words);
          return on_part(&given, is_final ? 1 : 0, context) != 0;
        };
        auto begun = thimble::TranscriptStream::begin(*transcriber->transcriber, to_pcm(*form),
                                                      to_options(chosen, transcriber->interrupted),
                                                      step, tell);
        if (report(begun.status(), error, error_size) != 0) return nullptr;
        auto stream = std::make_unique<thimble_sound_stream>();
        stream->stream = std::move(*begun);
        return stream.release();
      });
}

int thimble_sound_stream_feed(thimble_sound_stream* stream, const void* samples, uint64_t frames,
                              char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    Status status =
        given({{"stream", stream != nullptr}, {"samples", samples != nullptr || frames == 0}});
    if (status.ok()) status = check<uint64_t>("frames", frames, 0, kMostFrames);
    return status.ok() ? stream->stream->feed(samples, frames) : status;
  });
}

int thimble_sound_stream_finish(thimble_sound_stream* stream, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status status = given({{"stream", stream != nullptr}});
    return status.ok() ? stream->stream->finish() : status;
  });
}

void thimble_sound_stream_close(thimble_sound_stream* stream) { delete stream; }

void thimble_transcriber_interrupt(thimble_transcriber* transcriber, int32_t interrupt) {
  if (transcriber != nullptr) transcriber->interrupted = interrupt != 0;
}

void thimble_transcriber_free(thimble_transcriber* transcriber) { delete transcriber; }
