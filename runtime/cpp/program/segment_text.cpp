#include "program/segment_text.h"

#include <array>
#include <cstdio>

#include "constraint/json.h"
#include "hear/subtitles.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

/// Such as "30.00".
std::string number(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string joined(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) text += segment.text;
  return text.substr(!text.empty() && text[0] == ' ' ? 1 : 0);
}

/// The field of a segment's words, if it has them.
std::string words_of(const Segment& segment) {
  std::string list;
  for (const SpokenWord& word : segment.words) {
    list += (list.empty() ? "" : ", ") + std::string("{\"start\": ") + number(word.begin_s, 2) +
            ", \"end\": " + number(word.end_s, 2) + ", \"word\": " + quoted_json(word.text) + "}";
  }
  return list.empty() ? "" : ", \"words\": [" + list + "]";
}

std::string to_json(const Segment& segment) {
  std::string tokens;
  for (const int32_t token : segment.tokens) {
    tokens += (tokens.empty() ? "" : ", ") + std::to_string(token);
  }
  const TextScores& scores = segment.scores;
  return "{\"start\": " + number(segment.begin_s, 2) + ", \"end\": " + number(segment.end_s, 2) +
         ", \"text\": " + quoted_json(segment.text) + ", \"tokens\": [" + tokens +
         "], \"temperature\": " + number(scores.temperature, 1) +
         ", \"avg_logprob\": " + number(scores.avg_logprob, 4) +
         ", \"compression_ratio\": " + number(scores.compression_ratio, 4) +
         ", \"no_speech_prob\": " + number(scores.no_speech_prob, 6) + words_of(segment) + "}";
}

}  // namespace

std::string begin_of(SoundFormat format) {
  return format == SoundFormat::kVtt ? begin_of(Subtitles::kVtt) : "";
}

std::string text_of(const Segment& segment, size_t index, SoundFormat format, bool timed) {
  if (!segment.words.empty()) {
    std::string text;
    for (const SpokenWord& word : segment.words) {
      Segment one;
      one.begin_s = word.begin_s;
      one.end_s = word.end_s;
      one.text = word.text;
      text += text_of(one, index++, format, timed);
    }
    return text;
  }
  const double begin = segment.begin_s, end = segment.end_s;
  switch (format) {
    case SoundFormat::kText:
      if (timed) return "[" + times(begin, end, '.') + "] " + one_line(segment.text) + "\n";
      return index == 0 ? joined({segment}) : segment.text;
    case SoundFormat::kSrt:
      return subtitle(Subtitles::kSrt, index, begin, end, segment.text);
    case SoundFormat::kVtt:
      return subtitle(Subtitles::kVtt, index, begin, end, segment.text);
    case SoundFormat::kJson:
      break;
  }
  return "";
}

std::string part_of(const Segment& segment, bool is_final) {
  return "{\"final\": " + std::string(is_final ? "true" : "false") +
         ", \"segment\": " + to_json(segment) + "}\n";
}

std::string end_of(const std::string& path, double duration, const Transcript& transcript,
                   const std::vector<Segment>& segments, SoundFormat format, bool timed) {
  if (format == SoundFormat::kText) return timed ? "" : "\n";
  if (format != SoundFormat::kJson) return "";
  std::string list;
  for (const Segment& segment : segments) list += (list.empty() ? "" : ", ") + to_json(segment);
  return "{\"file\": " + quoted_json(with_valid_utf8(path)) +
         ", \"duration\": " + number(duration, 2) +
         ", \"language\": " + quoted_json(transcript.language) +
         ", \"text\": " + quoted_json(joined(segments)) + ", \"segments\": [" + list + "]}\n";
}

}  // namespace thimble
