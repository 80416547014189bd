#include "hear/transcriber.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr double kCutSeconds = 5;  // at the end of a window, where it may be cut
// A window is silence if this is as probable, and its text is not, on average of its tokens: the
// limits of openai-whisper. The token that says so is the one before that of no timestamps.
constexpr double kNoSpeech = 0.6, kUnsure = -1;
constexpr size_t kLeastTokens = 8;     // of a text, with what begins it
constexpr double kQuietSeconds = 0.2;  // that are compared

const uint8_t* bytes_of(std::string_view blob) {
  return reinterpret_cast<const uint8_t*>(blob.data());
}

/// The logarithm of a token's probability.
double log_probability(const std::vector<float>& logits, int32_t token) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return logits[static_cast<size_t>(token)] - most - std::log(sum);
}

int32_t likeliest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

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
  const std::string_view sound = program_->named_data("thimble.log_mel");
  const std::string_view settings = program_->named_data("thimble.transcription");
  if (tokenizer.empty() || sound.empty() || settings.empty()) {
    return Status::error("it is not a model that hears: export one with python -m exporter");
  }
  Result<Tokenizer> read = Tokenizer::load(bytes_of(tokenizer), tokenizer.size());
  if (!read.ok()) return read.status();
  tokenizer_ = std::make_unique<Tokenizer>(std::move(*read));
  Result<LogMelSettings> log_mel = LogMelSettings::load(bytes_of(sound), sound.size());
  if (!log_mel.ok()) return log_mel.status();
  log_mel_ = std::make_unique<LogMel>(std::move(*log_mel));
  Result<TranscriptionSettings> stored =
      TranscriptionSettings::load(bytes_of(settings), settings.size());
  if (!stored.ok()) return stored.status();
  settings_ = std::move(*stored);
  Result<std::unique_ptr<TextDecoder>> decoder = TextDecoder::load(*program_);
  if (!decoder.ok()) return decoder.status();
  decoder_ = std::move(*decoder);
  const LogMelSettings& window = log_mel_->settings();
  if (decoder_->max_tokens() < kLeastTokens) {
    return Status::error("its texts have no room for a token: export it again");
  }
  if (window.n_mels != decoder_->n_mels() || window.frames() != decoder_->frames()) {
    return Status::error("its features do not fit its encoder: export it again");
  }
  const auto vocab_size = static_cast<int32_t>(decoder_->vocab_size());
  std::vector<int32_t> tokens{settings_.start, settings_.end, settings_.no_timestamps,
                              settings_.no_timestamps - 1};
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
  return {};
}

Status Transcriber::check(const TranscribeOptions& options) const {
  if (settings_.languages.empty() && options.translate) {
    return Status::error("the model knows English alone and cannot translate: leave it out");
  }
  if (options.language.empty()) return {};
  if (settings_.languages.empty() && options.language == "en") return {};
  return settings_.language(options.language).status();
}

Result<Transcript> Transcriber::transcribe(const Pcm& pcm, const TranscribeOptions& options,
                                           const std::function<void(const WindowText&)>& on_text) {
  const Status possible = check(options);
  if (!possible.ok()) return possible;
  const LogMelSettings& settings = log_mel_->settings();
  const ResampledSound sound(pcm, settings.sampling_rate);
  std::vector<float> part;
  const Result<float> largest = this->largest(sound, &part);
  if (!largest.ok()) return largest.status();
  const size_t frames = log_mel_->frames(sound), most = settings.frames();
  const double frame_s = static_cast<double>(settings.hop_length) / settings.sampling_rate;
  Transcript transcript;
  transcript.language = options.language;
  std::vector<float> features(settings.n_mels * most);
  for (size_t begin = 0, end = 0; begin < frames; begin = end) {
    const size_t count = std::min(most, frames - begin);
    if (frames > most) {  // else it is what was searched for the largest
      part.resize(settings.n_mels * count);
      log_mel_->compute(sound, begin, count, part.data());
    }
    const size_t used = begin + count < frames ? quietest_end(part) : count;
    end = begin + used;
    WindowText window;
    window.begin_s = static_cast<double>(begin) * frame_s;
    window.end_s = std::min(static_cast<double>(end) * frame_s, pcm.seconds());
    float silence = std::max(LogMel::kLeast, *largest - LogMel::kRange);
    const bool silent =
        std::all_of(part.begin(), part.end(), [&](float feature) { return feature <= silence; });
    LogMel::normalize(*largest, part.size(), part.data());
    LogMel::normalize(*largest, 1, &silence);
    std::fill(features.begin(), features.end(), silence);  // as behind the end of a sound
    for (size_t mel = 0; mel < settings.n_mels; ++mel) {
      std::copy_n(&part[mel * count], used, &features[mel * most]);
    }
    Status status;
    if (!silent) status = decoder_->encode(features);
    if (!silent && status.ok()) status = write(options, &transcript.language, &window);
    if (!status.ok()) return status;
    transcript.tokens += static_cast<int64_t>(window.tokens.size());
    on_text(window);
    if (options.interrupted != nullptr && *options.interrupted) break;
  }
  return transcript;
}

Result<float> Transcriber::largest(const ResampledSound& sound, std::vector<float>* part) const {
  const size_t frames = log_mel_->frames(sound), most = log_mel_->settings().frames();
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t first = 0; first < frames; first += most) {
    const size_t count = std::min(most, frames - first);
    part->resize(log_mel_->settings().n_mels * count);
    log_mel_->compute(sound, first, count, part->data());
    for (const float feature : *part) {
      if (!std::isfinite(feature)) {
        return Status::error("the sound has samples that are not finite numbers: write it again");
      }
      largest = std::max(largest, feature);
    }
  }
  return largest;
}

size_t Transcriber::quietest_end(const std::vector<float>& features) const {
  const LogMelSettings& settings = log_mel_->settings();
  const size_t frames = settings.frames();
  const double per_second = static_cast<double>(settings.sampling_rate) / settings.hop_length;
  const auto wide = static_cast<size_t>(kQuietSeconds * per_second) + 1;
  const auto reach = std::min(frames / 2, static_cast<size_t>(kCutSeconds * per_second));
  std::vector<double> loudness(frames, 0.0);
  for (size_t mel = 0; mel < settings.n_mels; ++mel) {
    for (size_t i = 0; i < frames; ++i) loudness[i] += features[mel * frames + i];
  }
  size_t best = frames;
  double least = std::numeric_limits<double>::infinity();
  for (size_t begin = frames - reach; begin + wide <= frames; ++begin) {
    double sum = 0;
    for (size_t i = begin; i < begin + wide; ++i) sum += loudness[i];
    if (sum > least) continue;
    least = sum;
    best = begin + wide / 2;
  }
  return best;
}

Status Transcriber::write(const TranscribeOptions& options, std::string* language,
                          WindowText* window) {
  std::vector<float> logits;
  Status status = decoder_->step(settings_.start, &logits);
  const bool silent =
      status.ok() && std::exp(log_probability(logits, settings_.no_timestamps - 1)) > kNoSpeech;
  std::vector<int32_t> prompt;
  if (status.ok() && !settings_.languages.empty()) {
    if (language->empty()) {
      const auto is_less = [&logits](const Language& a, const Language& b) {
        return logits[static_cast<size_t>(a.token)] < logits[static_cast<size_t>(b.token)];
      };
      *language =
          std::max_element(settings_.languages.begin(), settings_.languages.end(), is_less)->code;
    }
    const Result<int32_t> token = settings_.language(*language);
    if (!token.ok()) return token.status();
    prompt = {*token, options.translate ? settings_.translate : settings_.transcribe};
  }
  prompt.push_back(settings_.no_timestamps);
  for (const int32_t token : prompt) {
    if (status.ok()) status = decoder_->step(token, &logits);
  }
  const size_t room = decoder_->max_tokens() - 1 - prompt.size();
  double sureness = 0;
  while (status.ok()) {
    suppress(window->tokens.empty(), &logits);
    const int32_t token = likeliest(logits);
    if (silent) sureness += log_probability(logits, token);
    if (token == settings_.end) break;
    window->tokens.push_back(token);
    // Times, which a model may write unasked, are no text.
    if (token <= settings_.no_timestamps) window->text += tokenizer_->token_bytes(token);
    if (window->tokens.size() == room) break;
    if (options.interrupted != nullptr && *options.interrupted) break;
    status = decoder_->step(token, &logits);
  }
  if (silent && sureness < kUnsure * static_cast<double>(window->tokens.size() + 1)) {
    window->tokens.clear();
    window->text.clear();
  }
  window->text = with_valid_utf8(window->text);
  return status;
}

void Transcriber::suppress(bool first, std::vector<float>* logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const int32_t token : settings_.suppress) (*logits)[static_cast<size_t>(token)] = kNever;
  if (!first) return;
  for (const int32_t token : settings_.begin_suppress) {
    (*logits)[static_cast<size_t>(token)] = kNever;
  }
}

}  // namespace thimble
