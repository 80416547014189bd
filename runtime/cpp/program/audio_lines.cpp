#include "program/audio_lines.h"

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraint/json.h"
#include "hear/transcriber.h"
#include "platform/mapped_file.h"
#include "program/interrupt.h"
#include "program/recording_signal.h"
#include "program/standard_output.h"
#include "sound/wav.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kMostInput = size_t{1} << 30;  // bytes of standard input

/// The bytes of a WAV file.
class SoundFile {
 public:
  Status open(const std::string& path) {
    if (path == "-") return read_input();
    std::string reason;
    using Error = platform::MappedFile::Error;
    switch (file_.open(path, &reason)) {
      case Error::kNone:
        return {};
      case Error::kDirectory:
        return Status::error(path + " is a directory: name a WAV file");
      case Error::kEmpty:
        return Status::error(path + " is empty: name a WAV file");
      default:
        return Status::error("cannot read " + path + ": " + reason + ": name a WAV file");
    }
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
    return Status::error("standard input is empty: pipe a WAV file into it");
  }

  platform::MappedFile file_;
  std::vector<uint8_t> input_;
};

/// Such as "30.00".
std::string seconds(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

/// The texts of a sound's windows, one behind the other.
std::string joined(const std::vector<WindowText>& windows) {
  std::string text;
  for (const WindowText& window : windows) text += window.text;
  return text.substr(!text.empty() && text[0] == ' ' ? 1 : 0);  // which parts it from a text before
}

std::string to_json(const WindowText& window) {
  std::string tokens;
  for (const int32_t token : window.tokens) {
    tokens += (tokens.empty() ? "" : ", ") + std::to_string(token);
  }
  return "{\"begin\": " + seconds(window.begin_s) + ", \"end\": " + seconds(window.end_s) +
         ", \"text\": " + quoted_json(window.text) + ", \"tokens\": [" + tokens + "]}";
}

std::string to_json(const std::string& path, double duration, const Transcript& transcript,
                    const std::vector<WindowText>& windows) {
  std::string list;
  for (const WindowText& window : windows) list += (list.empty() ? "" : ", ") + to_json(window);
  return "{\"file\": " + quoted_json(with_valid_utf8(path)) +
         ", \"duration\": " + seconds(duration) +
         ", \"language\": " + quoted_json(transcript.language) +
         ", \"text\": " + quoted_json(joined(windows)) + ", \"windows\": [" + list + "]}\n";
}

Status transcribe(Transcriber& transcriber, const std::string& path, const Options& options,
                  StandardOutput* output) {
  SoundFile file;
  const Status opened = file.open(path);
  if (!opened.ok()) return opened;
  const Result<Wav> wav = read_wav(file.data(), file.size(), path);
  if (!wav.ok()) return wav.status();
  if (wav->cut) {
    std::fprintf(stderr, "runner: %s is cut off: what is there is read\n", path.c_str());
  }
  const bool as_text = options.format == "text";
  std::vector<WindowText> windows;
  const auto on_text = [&](const WindowText& window) {
    const size_t before = joined(windows).size();
    windows.push_back(window);
    if (as_text) (void)output->write(joined(windows).substr(before));
  };
  TranscribeOptions how;
  how.language = options.language;
  how.translate = options.task == "translate";
  how.interrupted = &interrupted();
  const Result<Transcript> transcript = transcriber.transcribe(wav->pcm, how, on_text);
  if (!transcript.ok()) return Status::error(path + ": " + transcript.message());
  const double duration = wav->pcm.seconds();
  (void)output->write(as_text ? "\n" : to_json(path, duration, *transcript, windows));
  if (!options.quiet) {
    std::fprintf(stderr, "runner: %s: %.1f s of sound, %lld tokens in %zu window%s%s%s\n",
                 path.c_str(), duration, static_cast<long long>(transcript->tokens), windows.size(),
                 windows.size() == 1 ? "" : "s", transcript->language.empty() ? "" : ", language ",
                 transcript->language.c_str());
  }
  return output->status();
}

}  // namespace

Result<int> transcribe_files(const Options& options) {
  if (options.task != "transcribe" && options.task != "translate") {
    return Status::error("--task is '" + options.task + "', but must be transcribe or translate");
  }
  if (options.format != "text" && options.format != "json") {
    return Status::error("--format is '" + options.format + "', but must be text or json");
  }
  block_recording_signal();  // in the threads that loading starts as well
  Result<std::unique_ptr<Transcriber>> loaded =
      Transcriber::load(PteFile::open(options.model), options.load);
  if (!loaded.ok()) return loaded.status();
  RecordingSignal signal((*loaded)->program().recorder(), options.etdump);
  catch_interrupt();
  StandardOutput output;
  for (const std::string& path : options.audio) {
    const Status status = transcribe(**loaded, path, options, &output);
    if (!status.ok()) return status;
    if (interrupted()) break;
  }
  const Status finished = signal.finish();
  if (!finished.ok()) return finished;
  return interrupted() ? kInterrupted : 0;
}

}  // namespace thimble
