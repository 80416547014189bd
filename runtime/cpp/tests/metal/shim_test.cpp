// The shim that runs Metal's kernels: what its grid promises, and what it finds.

#include <vector>

#include "delegate/metal/shim/grid.h"
#include "tests/cases.h"

namespace metal {
enum class mem_flags;
void threadgroup_barrier(mem_flags flags);
}  // namespace metal

namespace {

using namespace thimble::metal_shim;
using thimble::test::expect;

constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

void barrier() { metal::threadgroup_barrier(metal::mem_flags{}); }

/// Every thread of every threadgroup runs once, with its place.
bool grid() {
  const Grid grid{{3, 2, 2}, 5, 0};
  for (const Order order : kOrders) {
    std::vector<int> seen(3 * 2 * 2 * 5);
    const std::string wrong = run_grid(grid, order, [&](const ThreadPosition& at, void*) {
      ++seen[((at.group[2] * 2 + at.group[1]) * 3 + at.group[0]) * 5 + at.thread];
    });
    if (!expect(wrong.empty() && seen == std::vector<int>(seen.size(), 1), "each thread once")) {
      return false;
    }
  }
  return true;
}

/// Sums by halves over threadgroup memory: right in every order, with a barrier between steps.
bool barriers() {
  constexpr uint32_t kThreads = 64;
  for (const Order order : kOrders) {
    int sum = 0;
    const std::string wrong =
        run_grid({{1, 1, 1}, kThreads, kThreads * sizeof(int)}, order,
                 [&](const ThreadPosition& at, void* memory) {
                   auto* values = static_cast<volatile int*>(memory);
                   values[at.thread] = static_cast<int>(at.thread);
                   for (uint32_t apart = kThreads / 2; apart > 0; apart /= 2) {
                     barrier();
                     if (at.thread < apart) {
                       values[at.thread] = values[at.thread] + values[at.thread + apart];
                     }
                   }
                   if (at.thread == 0) sum = values[0];
                 });
    if (!expect(wrong.empty() && sum == 64 * 63 / 2, "the sum of 0 to 63")) return false;
  }
  return true;
}

bool unequal_barriers() {
  const std::string wrong =
      run_grid({{1, 1, 1}, 4, 0}, Order::kForward, [](const ThreadPosition& at, void*) {
        if (at.thread == 2) barrier();
      });
  return expect(wrong == "some threads of threadgroup 0, 0 ended while others wait at a barrier",
                "a sentence");
}

/// A kernel that lacks a barrier: the orders do not agree, which is how the tests find one.
bool missing_barrier() {
  std::vector<int> results;
  for (const Order order : kOrders) {
    run_grid({{1, 1, 1}, 8, sizeof(int)}, order, [&](const ThreadPosition& at, void* memory) {
      auto* last = static_cast<volatile int*>(memory);
      *last = static_cast<int>(at.thread);
      barrier();
      if (at.thread == 0) results.push_back(int{*last});
    });
  }
  return expect(results[0] == 7 && results[1] == 0, "the last thread's number, in each order");
}

const thimble::test::Case kCases[] = {
    {"grid", grid},
    {"barriers", barriers},
    {"unequal_barriers", unequal_barriers},
    {"missing_barrier", missing_barrier},
};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
