#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace thimble {

/// Read all of the text of an option's value; the error names the option and what is allowed.

/// A number in [low, high].
Status read_real(const std::string& name, const std::string& text, double low, double high,
                 double* value);

/// A whole number in [low, high].
Status read_integer(const std::string& name, const std::string& text, uint64_t low, uint64_t high,
                    uint64_t* value);

}  // namespace thimble
