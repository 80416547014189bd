#include "hear/text_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hear/compression_ratio.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

// The limits of openai-whisper. A text fails that repeats itself, or is less likely on average of
// its tokens; a window is silence if this is as probable, and its text is not likely.
constexpr double kRepeated = 2.4, kUnsure = -1, kNoSpeech = 0.6;
constexpr double kWarmer = 0.2, kWarmest = 1;  // temperatures after one that failed
constexpr std::string_view kPrevious = "<|startofprev|>";

}  // namespace

Status TextWriter::begin(const TranscribeOptions& options) {
  options_ = options;
  random_.seed(options.seed);
  before_.clear();
  const std::string_view prompt = stripped(options.prompt);
  if (prompt.empty()) return {};
  const int32_t previous = tokenizer_.find_special(kPrevious);
  if (previous < 0 || static_cast<size_t>(previous) >= decoder_.vocab_size()) {
    return Status::error("the model has no token for what precedes a sound: leave the prompt out");
  }
  std::vector<int32_t> tokens =
      tokenizer_.encode(" " + std::string(prompt), /*parse_special=*/false);
  const size_t most = decoder_.max_tokens() / 2 - 1;  // the last ones, as openai-whisper has it
  if (tokens.size() > most) tokens.erase(tokens.begin(), tokens.end() - static_cast<int>(most));
  before_ = {previous};
  before_.insert(before_.end(), tokens.begin(), tokens.end());
  return {};
}

Status TextWriter::check(const TranscribeOptions& options, size_t frames) const {
  const size_t times = frames / kFrames + 1, first = static_cast<size_t>(settings_.first_time());
  if (options.timestamps && decoder_.vocab_size() != first + times) {
    return Status::error("the model has no tokens of times: leave timestamps out");
  }
  if (options.words && settings_.alignment_heads.empty()) {
    return Status::error(
        "the file has no alignment heads, which tell when words were spoken: export the model "
        "again, from a checkpoint that names them");
  }
  return {};
}

Status TextWriter::write(const std::vector<float>& numbers, size_t rows, std::string* language,
                         std::vector<int32_t>* tokens, TextScores* scores) {
  const Status status = decoder_.encode(numbers, rows);
  return status.ok() ? write_text(options_.fallback, {}, language, tokens, scores) : status;
}

Status TextWriter::write_text(bool fallback, const std::vector<int32_t>& expected,
                              std::string* language, std::vector<int32_t>* tokens,
                              TextScores* scores) {
  Status status;
  if (language->empty() && !settings_.languages.empty()) status = detect(language);
  if (status.ok()) status = read_prompt(*language, scores);
  decoder_.expect(expected);
  for (scores->temperature = options_.temperature; status.ok();) {
    status = attempt(tokens, scores);
    const bool unsure = scores->avg_logprob < kUnsure;
    if (unsure && scores->no_speech_prob > kNoSpeech) {
      tokens->clear();
      break;
    }
    const bool failed = unsure || scores->compression_ratio > kRepeated;
    const bool may_retry = fallback && options_.temperature == 0 && !interrupted();
    if (!failed || !may_retry || scores->temperature > kWarmest - kWarmer / 2) break;
    scores->temperature += kWarmer;
  }
  return status;
}

Status TextWriter::detect(std::string* language) {
  decoder_.truncate(0);
  const Status status = decoder_.step(settings_.start, &logits_);
  if (!status.ok()) return status;
  const auto is_less = [this](const Language& a, const Language& b) {
    return logits_[static_cast<size_t>(a.token)] < logits_[static_cast<size_t>(b.token)];
  };
  *language =
      std::max_element(settings_.languages.begin(), settings_.languages.end(), is_less)->code;
  return {};
}

Status TextWriter::read_prompt(const std::string& language, TextScores* scores) {
  std::vector<int32_t> behind;
  if (!settings_.languages.empty()) {
    const Result<int32_t> token = settings_.language(language);
    if (!token.ok()) return token.status();
    behind = {*token, options_.translate ? settings_.translate : settings_.transcribe};
  }
  if (!options_.timestamps && settings_.has_times()) behind.push_back(settings_.no_timestamps);
  decoder_.truncate(0);
  Status status;
  for (const int32_t token : before_) {
    if (status.ok()) status = decoder_.step(token, &logits_);
  }
  if (status.ok()) status = decoder_.step(settings_.start, &logits_);
  if (!status.ok()) return status;
  if (settings_.has_times()) {
    const float no_speech = logits_[static_cast<size_t>(settings_.no_speech())];
    scores->no_speech_prob = std::exp(no_speech - log_sum(logits_.data(), logits_.size()));
  }
  for (const int32_t token : behind) {
    if (status.ok()) status = decoder_.step(token, &logits_);
  }
  prompt_size_ = before_.size() + 1 + behind.size();
  return status;
}

Status TextWriter::attempt(std::vector<int32_t>* tokens, TextScores* scores) {
  decoder_.truncate(prompt_size_);
  tokens->clear();
  std::vector<float> logits = logits_;
  const size_t room = decoder_.max_tokens() - prompt_size_;
  double sum = 0;
  size_t count = 0;
  Status status;
  while (status.ok()) {
    forbid(*tokens, &logits);
    const int32_t token = choose(logits, scores->temperature);
    if (!std::isfinite(logits[static_cast<size_t>(token)])) break;  // all are forbidden
    sum += logits[static_cast<size_t>(token)] - log_sum(logits.data(), logits.size());
    ++count;
    if (token == settings_.end) break;
    tokens->push_back(token);
    if (tokens->size() == room || interrupted()) break;
    status = decoder_.step(token, &logits);
  }
  scores->avg_logprob = sum / static_cast<double>(std::max<size_t>(1, count));
  scores->compression_ratio = compression_ratio(stripped(text_of(*tokens, 0, tokens->size())));
  return status;
}

void TextWriter::forbid(const std::vector<int32_t>& text, std::vector<float>* logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const int32_t token : settings_.suppress) (*logits)[static_cast<size_t>(token)] = kNever;
  if (text.empty()) {
    for (const int32_t token : settings_.begin_suppress) {
      (*logits)[static_cast<size_t>(token)] = kNever;
    }
  }
  if (options_.timestamps) timestamps_.forbid(text, logits);
}

int32_t TextWriter::choose(const std::vector<float>& logits, double temperature) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<int32_t>(likeliest - logits.begin());
  std::vector<double> sums(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sums[i] = sum += std::exp((logits[i] - *likeliest) / temperature);
  }
  const double place = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;  // below 1
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), place);
  return static_cast<int32_t>(std::min(chosen, sums.end() - 1) - sums.begin());
}

std::vector<TimedPart> TextWriter::parts(const std::vector<int32_t>& tokens, size_t steps,
                                         size_t* used) const {
  return timestamps_.cut(tokens, steps, used);
}

std::vector<TokenTime> TextWriter::token_times(size_t tokens, size_t steps) const {
  const size_t read = std::min(tokens, decoder_.size() - prompt_size_);  // the last one may not be
  std::vector<size_t> ends(1, 0);
  if (read > 0) ends = token_ends(decoder_.attention(prompt_size_, read, steps));
  ends.resize(tokens, ends.back());
  std::vector<TokenTime> times;
  for (const size_t end : ends) times.push_back({times.empty() ? 0 : times.back().end, end});
  return times;
}

std::string TextWriter::text_of(const std::vector<int32_t>& tokens, size_t first,
                                size_t last) const {
  std::string text;
  for (size_t i = first; i < last; ++i) {
    // Times, which a model may write unasked, are no text.
    if (!timestamps_.is_time(tokens[i])) text += tokenizer_.token_bytes(tokens[i]);
  }
  return with_valid_utf8(text);
}

}  // namespace thimble
