#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace thimble {

/// Read all of the text of an option's value; the error names the option and what is allowed.

/// A number in [low, high].
Status read_real(const std::string& name, const std::string& text, double low, double high,
                 double* value);

/// A whole number in [low, high].
Status read_integer(const std::string& name, const std::string& text, uint64_t low, uint64_t high,
                    uint64_t* value);

/// One of two or more words; its index.
Status read_word(const std::string& name, const std::string& text,
                 const std::vector<std::string_view>& words, size_t* index);

}  // namespace thimble
