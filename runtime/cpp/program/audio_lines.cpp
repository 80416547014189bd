#include "program/audio_lines.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hear/transcriber.h"
#include "platform/streams.h"
#include "program/interrupt.h"
#include "program/named_file.h"
#include "program/recording_signal.h"
#include "program/segment_text.h"
#include "program/standard_output.h"
#include "sound/sound_file.h"

namespace thimble {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kShownSeconds = 60;            // of a sound, from which on progress is told
constexpr size_t kMostInput = size_t{1} << 30;  // bytes of standard input

/// The bytes of a file of sound.
class FileBytes {
 public:
  Status open(const std::string& path) {
    if (path == "-") return read_input();
    return open_named(path, "a file of sound", "name one, or pipe the sound into --audio -",
                      &file_);
  }
  const uint8_t* data() const { return input_.empty() ? file_.data() : input_.data(); }
  size_t size() const { return input_.empty() ? file_.size() : input_.size(); }

 private:
  Status read_input() {
    std::array<uint8_t, 1 << 16> part;
    while (const size_t size = std::fread(part.data(), 1, part.size(), stdin)) {
      input_.insert(input_.end(), part.data(), part.data() + size);
      if (input_.size() > kMostInput) {
        return Status::error("standard input has more than 1 GiB of sound: name a file");
      }
    }
    if (!input_.empty()) return {};
    return Status::error("standard input is empty: pipe a file of sound into it");
  }

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

Status transcribe(Transcriber& transcriber, const FileBytes& file, const std::string& path,
                  const Options& options, SoundFormat format, StandardOutput* output) {
  const Result<SoundFile> sound = read_sound(file.data(), file.size(), path, kNoLimit);
  if (!sound.ok()) return sound.status();
  if (sound->cut) {
    std::fprintf(stderr, "runner: %s is cut off: what is there is read\n", path.c_str());
  }
  const TranscribeOptions how = transcribe_options(options, format);
  const bool timed = how.timestamps;
  const double duration = sound->pcm.seconds();
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
  const Result<Transcript> transcript = transcriber.transcribe(sound->pcm, how, events);
  if (!transcript.ok()) return Status::error(path + ": " + transcript.message());
  if (segments.empty()) (void)output->write(begin_of(format));
  (void)output->write(end_of(path, duration, *transcript, segments, format, timed));
  if (!options.quiet) {
    std::fprintf(stderr, "runner: %s: %.1f s of sound, %lld tokens in %zu segment%s%s%s\n",
                 path.c_str(), duration, static_cast<long long>(transcript->tokens),
                 segments.size(), segments.size() == 1 ? "" : "s",
                 transcript->language.empty() ? "" : ", language ", transcript->language.c_str());
  }
  return output->status();
}

}  // namespace

Result<int> transcribe_files(const Options& options) {
  if (options.task != "transcribe" && options.task != "translate") {
    return Status::error("--task is '" + options.task + "', but must be transcribe or translate");
  }
  const Result<SoundFormat> format = format_of(options);
  if (!format.ok()) return format.status();
  const Result<std::vector<FileBytes>> files = open_files(options.audio);
  if (!files.ok()) return files.status();
  block_recording_signal();  // in the threads that loading starts as well
  Result<std::unique_ptr<Transcriber>> loaded =
      Transcriber::load(PteFile::open(options.model, options.load.signer), options.load);
  if (!loaded.ok()) return loaded.status();
  RecordingSignal signal((*loaded)->program().recorder(), options.etdump);
  catch_interrupt();
  StandardOutput output;
  for (size_t i = 0; i < files->size(); ++i) {
    const Status status =
        transcribe(**loaded, (*files)[i], options.audio[i], options, *format, &output);
    if (!status.ok()) return status;
    if (interrupted()) break;
  }
  const Status finished = signal.finish();
  if (!finished.ok()) return finished;
  return interrupted() ? kInterrupted : 0;
}

}  // namespace thimble
