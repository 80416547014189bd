#include "program/interrupt.h"

#include "platform/signals.h"

namespace thimble {
namespace {

std::atomic<bool> flag{false};
std::atomic<int> ending{0};

void on_signal(int number) {
  const bool again = flag.exchange(true);
  if (platform::is_interrupt(number) && !again) return;
  ending = number;
  platform::let_end(number);
}

}  // namespace

std::atomic<bool>& interrupted() { return flag; }

int ended() { return ending; }

void catch_interrupt() { platform::catch_ending_signals(on_signal); }

void serve_interrupt() {
  if (ended() == 0) flag = false;
}

}  // namespace thimble
