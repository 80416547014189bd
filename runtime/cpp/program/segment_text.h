#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hear/transcriber.h"

namespace thimble {

/// How the text of a sound is printed.
enum class SoundFormat { kText, kSrt, kVtt, kJson };

/// What comes before the first segment.
std::string begin_of(SoundFormat format);

/// A segment as it is printed once it is written, or each of its words if it has them; JSON has
/// none.
/// \param index of the first line of those of the sound.
/// \param timed whether plain text has times.
std::string text_of(const Segment& segment, size_t index, SoundFormat format, bool timed);

/// A line of JSON for a segment of a sound that arrives, which the next one may replace.
std::string part_of(const Segment& segment, bool is_final);

/// What comes behind the last one: JSON is all of it.
/// \param timed as above.
std::string end_of(const std::string& path, double duration, const Transcript& transcript,
                   const std::vector<Segment>& segments, SoundFormat format, bool timed);

}  // namespace thimble
