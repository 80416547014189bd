#include "runner/interrupt.h"

#include <signal.h>

namespace thimble {
namespace {

std::atomic<bool> flag{false};

}  // namespace

std::atomic<bool>& interrupted() { return flag; }

void catch_interrupt() {
  struct sigaction action{};
  action.sa_handler = [](int) { flag = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // and no SA_RESTART: reading a line ends too
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace thimble
