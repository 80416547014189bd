#pragma once

#include <cstddef>
#include <string>

namespace thimble {

enum class Subtitles { kSrt, kVtt };

/// What a file of subtitles begins with.
std::string begin_of(Subtitles form);

/// The block of a text, of which no other can begin within it.
/// \param index from 0 on.
/// \param begin_s, end_s seconds of the sound.
std::string subtitle(Subtitles form, size_t index, double begin_s, double end_s,
                     const std::string& text);

/// Two times with an arrow between them, in which `point` stands before the thousandths.
std::string times(double begin_s, double end_s, char point);

/// A segment's text on one line, without the space that parts it from a text before.
std::string one_line(const std::string& text);

}  // namespace thimble
