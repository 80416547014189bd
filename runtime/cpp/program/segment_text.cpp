#include "program/segment_text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "constraint/json.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

/// Such as "30.00".
std::string number(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// Hours, minutes, seconds and thousandths, before which `point` stands.
std::string clock(double seconds, char point) {
  const auto all = static_cast<unsigned long long>(std::llround(1000 * seconds));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%02llu:%02llu:%02llu%c%03llu", all / 3600000,
                all / 60000 % 60, all / 1000 % 60, point, all % 1000);
  return text.data();
}

std::string times(const Segment& segment, char point) {
  return clock(segment.begin_s, point) + " --> " + clock(segment.end_s, point);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// A segment's text on one line, without the space that parts it from a text before.
std::string line(const Segment& segment) {
  const std::string text = replaced(replaced(segment.text, "\n", " "), "\r", " ");
  return text.substr(!text.empty() && text[0] == ' ' ? 1 : 0);
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

std::string begin_of(SoundFormat format) { return format == SoundFormat::kVtt ? "WEBVTT\n\n" : ""; }

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
  switch (format) {
    case SoundFormat::kText:
      if (timed) return "[" + times(segment, '.') + "] " + line(segment) + "\n";
      return index == 0 ? joined({segment}) : segment.text;
    case SoundFormat::kSrt:
      return std::to_string(index + 1) + "\n" + times(segment, ',') + "\n" +
             replaced(line(segment), "-->", "-- >") + "\n\n";
    case SoundFormat::kVtt: {
      const std::string text = replaced(replaced(line(segment), "&", "&amp;"), "<", "&lt;");
      return times(segment, '.') + "\n" + replaced(text, ">", "&gt;") + "\n\n";
    }
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
