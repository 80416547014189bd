#pragma once

#include <atomic>

namespace thimble {

/// Set by Ctrl-C, which asks the answer to end.
std::atomic<bool>& interrupted();

/// Catches the next Ctrl-C; one more ends the program.
void catch_interrupt();

}  // namespace thimble
