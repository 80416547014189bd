#include "hear/transcriber.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "hear/ctc_writer.h"
#include "hear/text_writer.h"
#include "hear/word_times.h"

namespace thimble {
namespace {

constexpr size_t kLeastTokens = 8;  // of a text, with what begins it
constexpr double kLatestBegin = 1;  // seconds before the first text with timestamps
// Languages without spaces between words.
constexpr std::string_view kUnspaced[] = {"zh", "ja", "th", "lo", "my", "yue"};

}  // namespace

Result<std::unique_ptr<Transcriber>> Transcriber::load(Result<PteFile> file,
                                                       const LoadOptions& options) {
  Result<std::unique_ptr<TensorProgram>> program = TensorProgram::open(std::move(file), options);
  if (!program.ok()) return program.status();
  std::unique_ptr<Transcriber> transcriber(new Transcriber(std::move(*program)));
  const Status status = transcriber->load_settings();
  if (!status.ok()) {
    return Status::error("cannot load " + transcriber->program_->file().path() + ": " +
                         status.message());
  }
  return transcriber;
}

Status Transcriber::load_settings() {
  const std::string_view tokenizer = program_->named_data("thimble.tokenizer");
  const std::string_view settings = program_->named_data("thimble.transcription");
  Result<std::unique_ptr<SoundReader>> reader = SoundReader::load(*program_);
  if (!reader.ok()) return reader.status();
  reader_ = std::move(*reader);
  Result<std::unique_ptr<SpeechDetector>> detector =
      SpeechDetector::load(*program_, reader_->rate());
  if (!detector.ok()) return detector.status();
  detector_ = std::move(*detector);
  if (tokenizer.empty() || settings.empty()) {
    return Status::error("it is not a model that hears: export one with thimble-export");
  }
  Result<Tokenizer> read = Tokenizer::load(bytes_of(tokenizer), tokenizer.size());
  if (!read.ok()) return read.status();
  tokenizer_ = std::make_unique<Tokenizer>(std::move(*read));
  Result<TranscriptionSettings> stored =
      TranscriptionSettings::load(bytes_of(settings), settings.size());
  if (!stored.ok()) return stored.status();
  settings_ = std::move(*stored);
  return settings_.blank >= 0 ? load_ctc() : load_decoder();
}

Status Transcriber::check_sound(const TensorSpec& input) const {
  if (reader_->fits(input)) return {};
  return Status::error("its sound does not fit its encoder: export it again");
}

Status Transcriber::load_ctc() {
  Result<std::unique_ptr<CtcWriter>> writer = CtcWriter::load(*program_, *tokenizer_, settings_);
  if (!writer.ok()) return writer.status();
  const Status status = check_sound((*writer)->input());
  writer_ = std::move(*writer);
  return status;
}

Status Transcriber::load_decoder() {
  Result<std::unique_ptr<TextDecoder>> decoder = TextDecoder::load(*program_, settings_);
  if (!decoder.ok()) return decoder.status();
  decoder_ = std::move(*decoder);
  if (decoder_->max_tokens() < kLeastTokens) {
    return Status::error("its texts have no room for a token: export it again");
  }
  Status fitting = check_sound(decoder_->input());
  if (fitting.ok()) {
    const WaveformSettings* stream = reader_->stream();
    fitting = stream == nullptr
                  ? decoder_->use_positions(nullptr, 0)
                  : decoder_->use_positions(stream->positions.bytes(), stream->positions.size());
  }
  if (!fitting.ok()) return fitting;
  const auto vocab_size = static_cast<int32_t>(decoder_->vocab_size());
  std::vector<int32_t> tokens{settings_.start, settings_.end};
  if (settings_.has_times()) {
    tokens.insert(tokens.end(), {settings_.no_timestamps, settings_.no_speech()});
  }
  tokens.insert(tokens.end(), settings_.suppress.begin(), settings_.suppress.end());
  tokens.insert(tokens.end(), settings_.begin_suppress.begin(), settings_.begin_suppress.end());
  for (const Language& language : settings_.languages) tokens.push_back(language.token);
  if (!settings_.languages.empty()) {
    tokens.insert(tokens.end(), {settings_.transcribe, settings_.translate});
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return Status::error("its settings name token " + std::to_string(token) +
                           ", which it does not have: export it again");
    }
  }
  const auto latest = static_cast<size_t>(kLatestBegin / (TextWriter::kFrames * frame_s()) + 0.5);
  timestamps_ = std::make_unique<Timestamps>(settings_.first_time(), settings_.end, latest);
  auto writer = std::make_unique<TextWriter>(*decoder_, *tokenizer_, settings_, *timestamps_);
  text_writer_ = writer.get();
  writer_ = std::move(writer);
  return {};
}

Status Transcriber::at_work() {
  return Status::error("the model hears a sound that arrives: close it first");
}

double Transcriber::frame_s() const { return reader_->frame_s(); }

double Transcriber::seconds(size_t frame, size_t step) const {
  return static_cast<double>(frame + writer_->step_frames() * step) * frame_s();
}

Status Transcriber::check(const TranscribeOptions& options) const {
  if (settings_.languages.empty() && options.translate) {
    return Status::error("the model knows one language and cannot translate: leave it out");
  }
  const Status status = writer_->check(options, reader_->most());
  if (!status.ok()) return status;
  if (options.language.empty()) return {};
  if (settings_.english_alone() && options.language == "en") return {};
  return settings_.language(options.language).status();
}

Result<Transcriber::Window> Transcriber::next_window(size_t begin,
                                                     const std::function<bool()>& interrupted) {
  const size_t frames = reader_->frames(), hop = reader_->hop(), most = reader_->most();
  if (detector_ == nullptr) {
    const size_t count = std::min(most, frames - begin);
    return Window{begin, count, begin + count < frames};
  }
  const Result<SoundPart> part = detector_->next(begin * hop, most * hop, interrupted);
  if (!part.ok()) return part.status();
  const auto first = std::max(begin, static_cast<size_t>(part->begin / hop));
  const auto end = std::min(frames, static_cast<size_t>((part->end + hop - 1) / hop));
  return Window{first, end - std::min(end, first), part->goes_on};
}

Result<Transcript> Transcriber::transcribe(const Pcm& pcm, const TranscribeOptions& options,
                                           const TranscribeEvents& events) {
  Status status = streaming_ ? at_work() : check(options);
  if (status.ok()) status = writer_->begin(options);
  if (!status.ok()) return status;
  const ResampledSound sound(pcm, reader_->rate());
  bool ended = false;  // stays so if the caller takes it back
  const auto interrupted = [&] {
    ended = ended || (options.interrupted != nullptr && *options.interrupted);
    return ended;
  };
  status = reader_->begin(sound, interrupted);
  if (!status.ok()) return status;
  if (detector_ != nullptr) detector_->begin(sound);
  const size_t most = reader_->most(), spoken = reader_->spoken();
  // Frames that words may be in: those of a sound that fits a window are rounded up.
  const size_t heard = reader_->frames() > most ? spoken : 1 + (sound.size() - 1) / reader_->hop();
  Transcript transcript;
  transcript.language = settings_.english_alone() ? "en" : options.language;
  std::vector<float> numbers;
  const bool by_times = options.timestamps && writer_->ends_windows();
  const size_t step = writer_->step_frames();
  for (size_t begin = 0, used = 0; begin < spoken && !interrupted(); begin += used) {
    const Result<Window> window = next_window(begin, interrupted);
    if (!window.ok()) return window.status();
    if (window->count == 0) break;
    begin = window->begin;
    reader_->read(begin, window->count);
    used = window->goes_on && !by_times ? reader_->quietest_end() : window->count;
    WindowText text{begin, used, {}, {}, true};
    TextScores scores;
    if (reader_->encode(used, options.timestamps, &numbers)) {
      status =
          writer_->write(numbers, reader_->rows(), &transcript.language, &text.tokens, &scores);
    }
    if (!status.ok()) return status;
    if (options.words && !text.tokens.empty()) {
      const size_t steps = std::max<size_t>(1, std::min(used, heard - begin) / step);
      text.times = writer_->token_times(text.tokens.size(), steps);
      text.spaced = options.translate || std::find(std::begin(kUnspaced), std::end(kUnspaced),
                                                   transcript.language) == std::end(kUnspaced);
    }
    for (Segment& segment : segments_of(text, options.timestamps, &used)) {
      std::vector<double*> times{&segment.begin_s, &segment.end_s};
      for (SpokenWord& word : segment.words) {
        times.insert(times.end(), {&word.begin_s, &word.end_s});
      }
      for (double* time : times) *time = std::min(*time, pcm.seconds());
      segment.scores = scores;
      transcript.tokens += static_cast<int64_t>(segment.tokens.size());
      if (!events.on_segment(segment)) return transcript;
    }
    const double done = static_cast<double>(begin + used) * frame_s();
    if (events.on_progress) events.on_progress(std::min(done, pcm.seconds()));
  }
  return transcript;
}

std::vector<Segment> Transcriber::segments_of(const WindowText& text, bool timestamps,
                                              size_t* used) const {
  const std::vector<int32_t>& tokens = text.tokens;
  const size_t steps = std::max<size_t>(1, text.count / writer_->step_frames());
  std::vector<TimedPart> parts{{0, tokens.size(), 0, steps}};
  if (timestamps && !tokens.empty()) {
    size_t used_steps = steps;
    parts = writer_->parts(tokens, steps, &used_steps);
    if (used_steps < steps) *used = writer_->step_frames() * used_steps;
  }
  std::vector<Segment> segments;
  for (const TimedPart& part : parts) {
    Segment segment;
    segment.text = writer_->text_of(tokens, part.first, part.last);
    if (segment.text.find_first_not_of(' ') == std::string::npos) continue;
    segment.window_s = seconds(text.begin, 0);
    segment.begin_s = seconds(text.begin, part.begin);
    segment.end_s = part.end == steps ? static_cast<double>(text.begin + text.count) * frame_s()
                                      : seconds(text.begin, part.end);
    segment.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(part.first),
                          tokens.begin() + static_cast<std::ptrdiff_t>(part.last));
    if (!text.times.empty()) segment.words = words_of(text, part);
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<SpokenWord> Transcriber::words_of(const WindowText& text, const TimedPart& part) const {
  std::vector<size_t> places;  // of the tokens that are text
  std::vector<std::string_view> bytes;
  for (size_t i = part.first; i < part.last; ++i) {
    if (!writer_->is_text(text.tokens[i])) continue;
    places.push_back(i);
    bytes.push_back(tokenizer_->token_bytes(text.tokens[i]));
  }
  std::vector<SpokenWord> words;
  for (WordTokens& word : thimble::words_of(bytes, text.spaced)) {
    const size_t first = places[word.first], last = places[word.last - 1];
    words.push_back({seconds(text.begin, text.times[first].begin),
                     seconds(text.begin, text.times[last].end), std::move(word.text)});
  }
  return words;
}

}  // namespace thimble
