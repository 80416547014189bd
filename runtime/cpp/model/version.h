#pragma once

#include <string>

namespace thimble {

/// The package's version, as pyproject.toml has it.
const char* version();

/// What --version prints: the version, what this runner was built with, and the versions of the
/// formats that it reads.
std::string version_text();

}  // namespace thimble
