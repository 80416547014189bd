#include "platform/signals.h"

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace thimble::platform {
namespace {

sigset_t user_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

}  // namespace

void ignore_write_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);
}

void catch_ending_signals(void (*handler)(int number)) {
  struct sigaction action{};
  action.sa_handler = handler;  // without SA_RESTART: reading a line ends too
  for (const int number : {SIGINT, SIGHUP, SIGTERM}) {
    struct sigaction before{};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

bool is_interrupt(int number) { return number == SIGINT; }

void let_end(int number) { signal(number, SIG_DFL); }

void block_user_signal() {
  const sigset_t signals = user_signal();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool wait_for_user_signal() {
  const sigset_t signals = user_signal();
  int number = 0;
  return sigwait(&signals, &number) == 0;
}

void send_user_signal(std::thread& thread) { pthread_kill(thread.native_handle(), SIGUSR1); }

}  // namespace thimble::platform
