#include "program/audio_lines.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hear/transcriber.h"
#include "hear/transcript_stream.h"
#include "platform/streams.h"
#include "program/agreed_text.h"
#include "program/interrupt.h"
#include "program/named_file.h"
#include "program/recording_signal.h"
#include "program/segment_text.h"
#include "program/sound_input.h"
#include "program/standard_output.h"
#include "sound/sound_file.h"

namespace thimble {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kShownSeconds = 60;  // of a sound, from which on progress is told
constexpr double kStepSeconds = 1;    // of a sound that arrives, from one text to the next

/// The bytes of a file of sound.
class FileBytes {
 public:
  Status open(const std::string& path) {
    if (path == "-") {
      SoundInput input;
      const Status status = input.begin(0);
      return status.ok() ? take(&input) : status;
    }
    return open_named(path, "a file of sound", "name one, or pipe the sound into --audio -",
                      &file_);
  }
  Status take(SoundInput* input) {
    Result<std::vector<uint8_t>> bytes = input->all();
    if (bytes.ok()) input_ = std::move(*bytes);
    return bytes.status();
  }
  const uint8_t* data() const { return input_.empty() ? file_.data() : input_.data(); }
  size_t size() const { return input_.empty() ? file_.size() : input_.size(); }

 private:
  platform::MappedFile file_;
  std::vector<uint8_t> input_;
};

constexpr std::pair<std::string_view, SoundFormat> kFormats[] = {{"text", SoundFormat::kText},
                                                                 {"srt", SoundFormat::kSrt},
                                                                 {"vtt", SoundFormat::kVtt},
                                                                 {"json", SoundFormat::kJson}};

Result<SoundFormat> format_of(const Options& options) {
  for (const auto& [name, format] : kFormats) {
    if (options.format != name) continue;
    const bool is_one = format == SoundFormat::kText || format == SoundFormat::kJson;
    if (is_one || options.audio.size() == 1) return format;
    return Status::error("--format " + options.format + " is for one sound, but --audio names " +
                         std::to_string(options.audio.size()) + ": run once for each");
  }
  return Status::error("--format is '" + options.format + "', but must be text, srt, vtt or json");
}

TranscribeOptions transcribe_options(const Options& options, SoundFormat format) {
  TranscribeOptions how;
  how.language = options.language;
  how.translate = options.task == "translate";
  how.timestamps = options.timestamps || format == SoundFormat::kSrt || format == SoundFormat::kVtt;
  how.words = options.words;
  how.prompt = options.prompt.value_or("");
  how.temperature = options.answer.sampler.temperature;
  how.fallback = !options.no_fallback;
  how.seed = options.seed.value_or(0);
  how.interrupted = &interrupted();
  return how;
}

/// Opens all files and reads what begins them, so that nothing is written if one is wrong.
Result<std::vector<FileBytes>> open_files(const std::vector<std::string>& paths) {
  std::vector<FileBytes> files(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    Status status = files[i].open(paths[i]);
    if (status.ok()) status = check_sound(files[i].data(), files[i].size(), paths[i]);
    if (!status.ok()) return status;
  }
  return files;
}

/// Prints what stands behind a sound's segments.
Status finish(const std::string& path, double duration, const Transcript& transcript,
              const std::vector<Segment>& segments, const Options& options, SoundFormat format,
              StandardOutput* output) {
  const bool timed = transcribe_options(options, format).timestamps;
  (void)output->write(end_of(path, duration, transcript, segments, format, timed));
  if (!options.quiet) {
    std::fprintf(stderr, "runner: %s: %.1f s of sound, %lld tokens in %zu segment%s%s%s\n",
                 path.c_str(), duration, static_cast<long long>(transcript.tokens), segments.size(),
                 segments.size() == 1 ? "" : "s", transcript.language.empty() ? "" : ", language ",
                 transcript.language.c_str());
  }
  return output->status();
}

Status transcribe(Transcriber& transcriber, const Pcm& sound, const std::string& path,
                  const Options& options, SoundFormat format, StandardOutput* output) {
  const TranscribeOptions how = transcribe_options(options, format);
  const bool timed = how.timestamps;
  const double duration = sound.seconds();
  std::vector<Segment> segments;
  size_t lines = 0;
  TranscribeEvents events;
  events.on_segment = [&](const Segment& segment) {
    if (segments.empty()) (void)output->write(begin_of(format));
    (void)output->write(text_of(segment, lines, format, timed));
    lines += std::max<size_t>(1, segment.words.size());
    segments.push_back(segment);
    return output->status().ok();
  };
  const bool shows = !options.quiet && platform::error_is_terminal() && duration > kShownSeconds;
  if (shows) {
    events.on_progress = [duration](double done) {
      std::fprintf(stderr, "runner: %.0f of %.0f s\r", done, duration);
    };
  }
  const Result<Transcript> transcript = transcriber.transcribe(sound, how, events);
  if (!transcript.ok()) return Status::error(path + ": " + transcript.message());
  if (segments.empty()) (void)output->write(begin_of(format));
  return finish(path, duration, *transcript, segments, options, format, output);
}

Status transcribe_file(Transcriber& transcriber, const FileBytes& file, const std::string& path,
                       const Options& options, SoundFormat format, StandardOutput* output) {
  const Result<SoundFile> sound = read_sound(file.data(), file.size(), path, kNoLimit);
  if (!sound.ok()) return sound.status();
  if (sound->cut) {
    std::fprintf(stderr, "runner: %s is cut off: what is there is read\n", path.c_str());
  }
  return transcribe(transcriber, sound->pcm, path, options, format, output);
}

/// Writes the text of standard input while it arrives.
Status transcribe_live(Transcriber& transcriber, SoundInput& input, const Options& options,
                       SoundFormat format, StandardOutput* output) {
  std::vector<Segment> segments;
  AgreedText text;
  const bool plain = format == SoundFormat::kText && !options.timestamps;
  const auto on_part = [&](const Segment& segment, bool is_final) {
    Segment shown = segment;
    if (segments.empty() && shown.text.substr(0, 1) == " ") shown.text.erase(0, 1);
    if (plain) (void)output->write(is_final ? text.end(shown.text) : text.more(shown.text));
    if (format == SoundFormat::kJson) (void)output->write(part_of(segment, is_final));
    if (is_final) segments.push_back(segment);
    return output->status().ok();
  };
  const Pcm& form = *input.form();
  const auto stream = TranscriptStream::begin(
      transcriber, form, transcribe_options(options, format), kStepSeconds, on_part);
  if (!stream.ok()) return stream.status();
  const size_t frame = static_cast<size_t>(form.channels) * size_of(form.type);
  Status status;
  while (status.ok() && output->status().ok() && !interrupted()) {
    const std::vector<uint8_t> bytes = input.next();
    if (bytes.empty()) break;
    status = (*stream)->feed(bytes.data(), bytes.size() / frame);
  }
  if (status.ok()) status = (*stream)->finish();
  if (!status.ok()) return Status::error("standard input: " + status.message());
  const Transcript transcript{"", (*stream)->tokens()};
  return finish("-", (*stream)->seconds(), transcript, segments, options, format, output);
}

Status transcribe_input(Transcriber& transcriber, SoundInput& input, const Options& options,
                        SoundFormat format, StandardOutput* output) {
  if (input.form() && transcriber.streams()) {
    return transcribe_live(transcriber, input, options, format, output);
  }
  if (options.raw_rate == 0) {
    FileBytes file;
    const Status status = file.take(&input);
    return status.ok() ? transcribe_file(transcriber, file, "-", options, format, output) : status;
  }
  const Result<std::vector<uint8_t>> bytes = input.all();
  if (!bytes.ok()) return bytes.status();
  Pcm pcm = *input.form();
  pcm.frames = bytes->size() / size_of(pcm.type);
  pcm.data = bytes->data();
  if (pcm.frames == 0) return Status::error("standard input has no samples: pipe a sound into it");
  return transcribe(transcriber, pcm, "-", options, format, output);
}

}  // namespace

Result<int> transcribe_files(const Options& options) {
  if (options.task != "transcribe" && options.task != "translate") {
    return Status::error("--task is '" + options.task + "', but must be transcribe or translate");
  }
  const Result<SoundFormat> format = format_of(options);
  if (!format.ok()) return format.status();
  const bool from_input = options.audio.size() == 1 && options.audio[0] == "-";
  if (options.raw_rate > 0 && !from_input) {
    return Status::error("--raw is for --audio - alone: leave it out, or pipe the samples in");
  }
  SoundInput input;
  if (from_input) {
    const Status status = input.begin(options.raw_rate);
    if (!status.ok()) return status;
  }
  Result<std::vector<FileBytes>> files = std::vector<FileBytes>();
  if (!from_input) files = open_files(options.audio);
  if (!files.ok()) return files.status();
  block_recording_signal();  // in the threads that loading starts as well
  Result<std::unique_ptr<Transcriber>> loaded =
      Transcriber::load(PteFile::open(options.model, options.load.signer), options.load);
  if (!loaded.ok()) return loaded.status();
  RecordingSignal signal((*loaded)->program().recorder(), options.etdump);
  catch_interrupt();
  StandardOutput output;
  if (from_input) {
    const Status status = transcribe_input(**loaded, input, options, *format, &output);
    if (!status.ok()) return status;
  }
  for (size_t i = 0; i < files->size(); ++i) {
    const Status status =
        transcribe_file(**loaded, (*files)[i], options.audio[i], options, *format, &output);
    if (!status.ok()) return status;
    if (interrupted()) break;
  }
  const Status finished = signal.finish();
  if (!finished.ok()) return finished;
  if (!interrupted()) return 0;
  std::fprintf(stderr, "runner: interrupted: the text ends before the sound does\n");
  return kInterrupted;
}

}  // namespace thimble
