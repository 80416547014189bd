#pragma once

#include <string_view>

namespace thimble {

/// How many times as large a text is as what zlib makes of its bytes, to about 1%. Text
/// that repeats itself has a large ratio; an empty one has 0.
double compression_ratio(std::string_view text);

}  // namespace thimble
