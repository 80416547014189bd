#include "runner/interrupt.h"

#include <signal.h>

#include <initializer_list>

namespace thimble {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> ending{0};

void on_signal(int number) {
  const bool again = flag.exchange(true);
  if (number == SIGINT && !again) return;
  ending = number;
  signal(number, SIG_DFL);
}

}  // namespace

std::atomic<bool>& interrupted() { return flag; }

int ended() { return ending; }

void catch_interrupt() {
  struct sigaction action{};
  action.sa_handler = on_signal;  // without SA_RESTART: reading a line ends too
  for (const int number : {SIGINT, SIGHUP, SIGTERM}) {
    struct sigaction before{};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

void serve_interrupt() {
  if (ended() == 0) flag = false;
}

}  // namespace thimble
