#pragma once

#include <thread>

namespace thimble::platform {

/// Makes a reader that goes and a limit on a file's size errors of writing, which would end the
/// program.
void ignore_write_signals();

/// Calls the handler with each SIGINT, SIGHUP and SIGTERM, except those that the parent ignores.
/// Calls of the system that wait return early.
void catch_ending_signals(void (*handler)(int number));

/// Whether it is the signal of Ctrl-C.
bool is_interrupt(int number);

/// Makes the next signal of this number end the program. May be called in a handler.
void let_end(int number);

/// Blocks SIGUSR1 in the calling thread and those it starts later, for wait_for_user_signal().
void block_user_signal();

/// Waits for a SIGUSR1; false if that is not possible.
bool wait_for_user_signal();

/// Sends SIGUSR1 to one thread.
void send_user_signal(std::thread& thread);

}  // namespace thimble::platform
