#include "hear/subtitles.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace thimble {
namespace {

/// Hours, minutes, seconds and thousandths, before which `point` stands.
std::string clock(double seconds, char point) {
  const auto all = static_cast<unsigned long long>(std::llround(1000 * seconds));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%02llu:%02llu:%02llu%c%03llu", all / 3600000,
                all / 60000 % 60, all / 1000 % 60, point, all % 1000);
  return text.data();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::string begin_of(Subtitles form) { return form == Subtitles::kVtt ? "WEBVTT\n\n" : ""; }

std::string subtitle(Subtitles form, size_t index, double begin_s, double end_s,
                     const std::string& text) {
  const std::string line = one_line(text);
  if (form == Subtitles::kSrt) {
    return std::to_string(index + 1) + "\n" + times(begin_s, end_s, ',') + "\n" +
           replaced(line, "-->", "-- >") + "\n\n";
  }
  const std::string marked = replaced(replaced(line, "&", "&amp;"), "<", "&lt;");
  return times(begin_s, end_s, '.') + "\n" + replaced(marked, ">", "&gt;") + "\n\n";
}

std::string times(double begin_s, double end_s, char point) {
  return clock(begin_s, point) + " --> " + clock(end_s, point);
}

std::string one_line(const std::string& text) {
  const std::string line = replaced(replaced(text, "\n", " "), "\r", " ");
  return line.substr(!line.empty() && line[0] == ' ' ? 1 : 0);
}

}  // namespace thimble
