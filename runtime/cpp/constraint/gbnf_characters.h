#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thimble {

/// Reads a character of a text or of a class in GBNF, which may be an escape, and moves `at` behind
/// it. Returns what is wrong at `at`, or nothing.
std::string next_gbnf_character(std::string_view text, size_t* at, uint32_t* point);

}  // namespace thimble
