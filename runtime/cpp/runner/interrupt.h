#pragma once

#include <atomic>

namespace thimble {

/// Set by Ctrl-C, which asks the answer to end, and by what sets `ended`.
std::atomic<bool>& interrupted();

/// The signal that asks the program to save what it keeps and end: SIGHUP, SIGTERM, or SIGINT for a
/// second Ctrl-C before the first was served; 0 before.
int ended();

/// Catches SIGINT, SIGHUP and SIGTERM, except those that the parent ignores. The same signal once
/// more after `ended` is set ends the program at once.
void catch_interrupt();

/// Lets the next Ctrl-C count as the first again, now that the answer has ended.
void serve_interrupt();

}  // namespace thimble
