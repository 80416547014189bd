// The thread team: every thread works once per call, and a barrier orders what they write.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "delegate/threads/cores.h"
#include "delegate/threads/share.h"
#include "delegate/threads/thread_team.h"
#include "delegate/threads/work_sharing.h"
#include "tests/cases.h"

namespace {

using thimble::cpu::Range;
using thimble::cpu::share;
using thimble::cpu::ThreadTeam;
using thimble::cpu::WorkSharing;
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

/// Each unit's visits in a round of so many units.
std::vector<int> visits(ThreadTeam& team, size_t count, size_t least) {
  std::vector<std::atomic<int>> units(count);
  team.run([&](size_t thread) {
    team.share_out(thread, count, least, [&](Range part) {
      for (size_t unit = part.first; unit < part.last; ++unit) ++units[unit];
    });
  });
  return {units.begin(), units.end()};
}

bool shared_out_once() {
  for (size_t threads = 1; threads <= kMostThreads; ++threads) {
    ThreadTeam team(threads);
    for (const size_t count : {0, 1, 2, 5, 64, 1001}) {
      for (const size_t least : {1, 3, 100000}) {
        for (const int visited : visits(team, count, least)) {
          if (!expect(visited == 1, "every unit once")) return false;
        }
      }
    }
  }
  return true;
}

bool shared_out_in_every_round() {
  // More rounds than their number has bits for; thread 1 has a share in the first and the last.
  constexpr size_t kRounds = (size_t{1} << 16) + 1;
  WorkSharing sharing(2);
  for (size_t round = 0; round < kRounds; ++round) {
    const size_t count = round % (kRounds - 1) == 0 ? 8 : 1;
    size_t done = 0;
    for (size_t thread = 0; thread < 2; ++thread) {
      sharing.run(thread, count, 1, [&](Range part) { done += part.size(); });
    }
    if (!expect(done == count, "all units of all rounds")) return false;
  }
  return true;
}

bool others_do_the_work_of_a_late_thread() {
  ThreadTeam team(3);
  std::atomic<size_t> done{0}, of_late{0};
  team.run([&](size_t thread) {
    constexpr size_t kCount = 300;
    while (thread == 0 && done < kCount) std::this_thread::yield();
    team.share_out(thread, kCount, 1, [&](Range part) {
      done += part.size();
      if (thread == 0) of_late += part.size();
    });
  });
  return expect(done == 300 && of_late == 0, "nothing left for who comes last");
}

bool default_is_possible() {
  const size_t threads = thimble::cpu::default_threads();
  const size_t most = std::thread::hardware_concurrency();
  return expect(threads >= 1 && (most == 0 || threads <= most), "1 to the number of CPUs");
}

}  // namespace

int main(int argc, char** argv) {
  const Case cases[] = {
      {"runs_on_every_thread", runs_on_every_thread},
      {"barrier_orders_writes", barrier_orders_writes},
      {"sleepers_wake", sleepers_wake},
      {"ends_without_work", ends_without_work},
      {"shares_are_even", shares_are_even},
      {"shared_out_once", shared_out_once},
      {"shared_out_in_every_round", shared_out_in_every_round},
      {"others_do_the_work_of_a_late_thread", others_do_the_work_of_a_late_thread},
      {"default_is_possible", default_is_possible}};
  return thimble::test::run_cases(cases, argc, argv);
}
