#include "hear/transcript_stream.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "hear/text_writer.h"

namespace thimble {

Result<std::unique_ptr<TranscriptStream>> TranscriptStream::begin(Transcriber& transcriber,
                                                                  const Pcm& form,
                                                                  const TranscribeOptions& options,
                                                                  double step_s, OnPart on_part) {
  if (!transcriber.streams()) {
    return Status::error(
        "the model reads whole sounds, not those that arrive: give it a complete one");
  }
  if (transcriber.streaming_) return transcriber.at_work();
  Status status = transcriber.check(options);
  if (status.ok()) status = transcriber.writer_->begin(options);
  if (!status.ok()) return status;
  return std::unique_ptr<TranscriptStream>(
      new TranscriptStream(transcriber, form, options, step_s, std::move(on_part)));
}

TranscriptStream::TranscriptStream(Transcriber& transcriber, const Pcm& form,
                                   const TranscribeOptions& options, double step_s, OnPart on_part)
    : transcriber_(transcriber),
      options_(options),
      on_part_(std::move(on_part)),
      step_(static_cast<size_t>(std::max(1.0, std::round(step_s / transcriber.frame_s())))),
      live_(form, transcriber.reader_->rate()),
      language_(options.language) {
  transcriber_.streaming_ = true;
  (void)transcriber_.reader_->begin(live_.sound(), [] { return true; });  // nothing is there yet
}

TranscriptStream::~TranscriptStream() { transcriber_.streaming_ = false; }

bool TranscriptStream::ended() const {
  return stopped_ || (options_.interrupted != nullptr && *options_.interrupted);
}

Status TranscriptStream::feed(const void* samples, uint64_t frames) {
  if (ended()) return {};
  live_.append(samples, frames);
  const size_t rows = static_cast<size_t>(live_.settled()) / settings().row;
  Status status = look(rows);
  // A full window ends once there is more: else it may be the last one, which is not cut.
  while (status.ok() && !ended() && looked_ - begin_ > settings().most) status = cut();
  if (!status.ok() || ended()) return status;
  const size_t steps = (looked_ - begin_ - heard_) / step_;
  return steps == 0 ? status : hear(heard_ + steps * step_, false);
}

Status TranscriptStream::finish() {
  if (live_.sound().size() == 0) return {};
  const size_t rows = transcriber_.reader_->frames();
  Status status = look(rows);
  while (status.ok() && !ended() && looked_ - begin_ > settings().most) status = cut();
  const size_t left = looked_ - begin_;
  if (!status.ok() || ended() || left == 0) return status;
  status = hear(left, true);
  next_window(looked_);
  return status;
}

Status TranscriptStream::look(size_t rows) {
  Status status;
  while (status.ok() && looked_ < rows) {
    const size_t count = std::min(rows - looked_, settings().most);
    status = transcriber_.reader_->look(looked_, count);
    looked_ += count;
  }
  return status;
}

Status TranscriptStream::cut() {
  transcriber_.reader_->read(begin_, settings().most);
  const size_t used = transcriber_.reader_->quietest_end();
  const Status status = hear(used, true);
  next_window(begin_ + used);
  return status;
}

void TranscriptStream::next_window(size_t begin) {
  begin_ = begin;
  heard_ = complete_ = 0;
  has_sound_ = false;
  shown_.clear();
  written_.clear();
  // What lies before it is forgotten in whole seconds of whole rows, but for the last of these,
  // which resampling reads.
  const auto rate = static_cast<size_t>(transcriber_.reader_->rate()), row = settings().row;
  const size_t seconds = row / std::gcd(rate, row), rows = seconds * rate / row;
  const size_t past = begin_ / rows;
  if (past < 2) return;
  live_.forget((past - 1) * seconds);
  begin_ -= (past - 1) * rows;
  looked_ -= (past - 1) * rows;
}

Status TranscriptStream::hear(size_t count, bool is_final) {
  const Status status = encode(count, is_final);
  heard_ = count;
  return status.ok() ? write(count, is_final) : status;
}

Status TranscriptStream::encode(size_t count, bool is_final) {
  SoundReader& reader = *transcriber_.reader_;
  std::vector<float> numbers;
  if (is_final) {  // which may be cut: what is behind has no part in it
    reader.read(begin_, count);
    has_sound_ = reader.encode(count, false, &numbers);
  }
  const size_t complete = count - std::min(count, settings().behind);
  const size_t kept = std::min(complete_, complete);
  const size_t first = kept - std::min(kept, settings().before);
  reader.read(begin_ + first, count - first);
  const bool has_sound = reader.encode(count - first, false, &numbers);
  has_sound_ = has_sound_ || (has_sound && !is_final);
  complete_ = complete;
  return transcriber_.decoder_->encode(numbers, count - first, first, kept - first);
}

Status TranscriptStream::write(size_t count, bool is_final) {
  Transcriber::WindowText text{begin_, count, {}, {}, true};
  TextScores scores;
  if (has_sound_) {
    const Status status = transcriber_.text_writer_->write_text(
        options_.fallback && is_final, is_final ? std::vector<int32_t>() : written_, &language_,
        &text.tokens, &scores);
    if (!status.ok()) return status;
    written_ = text.tokens;
  }
  if (ended()) return {};
  std::vector<Segment> segments = transcriber_.segments_of(text, false, &count);
  if (segments.empty()) segments.emplace_back();
  Segment& segment = segments.front();
  if (segment.text == shown_ && (!is_final || shown_.empty())) return {};
  shown_ = segment.text;
  const auto offset = static_cast<double>(live_.forgotten_s());
  segment.window_s = segment.begin_s = offset + transcriber_.seconds(begin_, 0);
  segment.end_s = std::min(live_.seconds(),
                           offset + static_cast<double>(begin_ + count) * transcriber_.frame_s());
  segment.scores = scores;
  if (is_final) tokens_ += static_cast<int64_t>(segment.tokens.size());
  stopped_ = !on_part_(segment, is_final);
  return {};
}

}  // namespace thimble
