#pragma once

#include <atomic>

namespace thimble {

/// Set by Ctrl-C, which ends the answer, and whenever `ended` is set.
std::atomic<bool>& interrupted();

/// The signal on which the program saves its state and ends: SIGHUP, SIGTERM, or SIGINT for a
/// second Ctrl-C before the first was handled; 0: none.
int ended();

/// Catches SIGINT, SIGHUP and SIGTERM, except those that the parent ignores. The same signal once
/// more after `ended` is set ends the program at once.
void catch_interrupt();

/// Makes the next Ctrl-C count as the first again, after an answer has ended.
void serve_interrupt();

}  // namespace thimble
