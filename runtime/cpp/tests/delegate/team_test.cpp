// The thread team: every thread works once per call, and a barrier orders what they write.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "delegate/threads/cores.h"
#include "delegate/threads/share.h"
#include "delegate/threads/thread_team.h"
#include "tests/cases.h"

namespace {

using thimble::cpu::Range;
using thimble::cpu::share;
using thimble::cpu::ThreadTeam;
using thimble::test::Case;
using thimble::test::expect;

constexpr size_t kMostThreads = 7;

bool runs_on_every_thread() {
  for (size_t threads = 1; threads <= kMostThreads; ++threads) {
    ThreadTeam team(threads);
    std::vector<int> calls(threads, 0);
    for (int round = 0; round < 200; ++round) team.run([&](size_t thread) { ++calls[thread]; });
    for (const int count : calls) {
      if (!expect(count == 200, "every thread once per call")) return false;
    }
  }
  return true;
}

bool barrier_orders_writes() {
  constexpr int kRounds = 300;
  for (size_t threads = 1; threads <= kMostThreads; ++threads) {
    ThreadTeam team(threads);
    std::vector<int> numbers(threads, 0);
    std::vector<int> wrong(threads, 0);
    team.run([&](size_t thread) {
      for (int round = 1; round <= kRounds; ++round) {
        numbers[thread] = round;
        team.barrier();
        for (const int number : numbers) wrong[thread] += number != round;
        team.barrier();
      }
    });
    for (const int count : wrong) {
      if (!expect(count == 0, "what others wrote before the barrier")) return false;
    }
  }
  return true;
}

bool sleepers_wake() {
  // Far beyond the time that anybody spins: all but one sleep at the barrier, and before the call.
  constexpr std::chrono::milliseconds kLong(5);
  ThreadTeam team(3);
  std::atomic<int> passed{0};
  for (size_t late = 0; late < 3; ++late) {
    std::this_thread::sleep_for(kLong);
    team.run([&](size_t thread) {
      if (thread == late) std::this_thread::sleep_for(kLong);
      team.barrier();
      ++passed;
    });
  }
  return expect(passed == 9, "all threads past the barrier");
}

bool ends_without_work() {
  for (size_t threads = 1; threads <= kMostThreads; ++threads) ThreadTeam team(threads);
  return true;
}

bool shares_are_even() {
  for (const size_t count : {0, 1, 5, 16, 1001}) {
    for (size_t threads = 1; threads <= kMostThreads; ++threads) {
      for (const size_t step : {1, 4}) {
        size_t next = 0;
        for (size_t thread = 0; thread < threads; ++thread) {
          const Range part = share(count, step, thread, threads);
          const bool follows = part.first == next && part.last >= part.first;
          const bool even = part.size() <= (count / step / threads + 1) * step;
          if (!expect(follows && even, "parts in order, even to one step")) return false;
          next = part.last;
        }
        if (!expect(next == count, "all of it shared out")) return false;
      }
    }
  }
  return true;
}

bool default_is_possible() {
  const size_t threads = thimble::cpu::default_threads();
  const size_t most = std::thread::hardware_concurrency();
  return expect(threads >= 1 && (most == 0 || threads <= most), "1 to the number of CPUs");
}

}  // namespace

int main(int argc, char** argv) {
  const Case cases[] = {{"runs_on_every_thread", runs_on_every_thread},
                        {"barrier_orders_writes", barrier_orders_writes},
                        {"sleepers_wake", sleepers_wake},
                        {"ends_without_work", ends_without_work},
                        {"shares_are_even", shares_are_even},
                        {"default_is_possible", default_is_possible}};
  return thimble::test::run_cases(cases, argc, argv);
}
