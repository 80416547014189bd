#include "bench/limit_bench.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "bench/stopwatch.h"

namespace thimble::bench {
namespace {

constexpr double kLeastSeconds = 0.04;  // of one timed run
constexpr int kRuns = 3;                // the fastest counts
constexpr size_t kReadUnit = 256;       // Limits::read takes multiples of it

/// Runs `work(thread, repeats)` on all threads at once; seconds from their common start to the end
/// of the last.
double run_together(int32_t threads, size_t repeats,
                    const std::function<uint64_t(int32_t, size_t)>& work) {
  std::atomic<int32_t> waiting{threads};
  std::atomic<uint64_t> sink{0};
  std::vector<std::thread> others;
  Stopwatch watch;
  const auto join_in = [&](int32_t thread) {
    // The last to arrive starts the clock before it lets the others go.
    if (waiting.fetch_sub(1) == 1) {
      watch = Stopwatch();
      waiting.store(-1, std::memory_order_release);
    }
    while (waiting.load(std::memory_order_acquire) != -1) std::this_thread::yield();
    sink += work(thread, repeats);
  };
  for (int32_t thread = 1; thread < threads; ++thread) others.emplace_back(join_in, thread);
  join_in(0);
  for (std::thread& other : others) other.join();
  return watch.seconds();
}

/// Repeats of `work` per second, in the fastest run.
double best_rate(int32_t threads, const std::function<uint64_t(int32_t, size_t)>& work) {
  const double once = run_together(threads, 1, work);
  const auto repeats = static_cast<size_t>(std::ceil(kLeastSeconds / std::max(once, 1e-6)));
  double best = 0.0;
  for (int i = 0; i < kRuns; ++i) {
    best = std::max(best, static_cast<double>(repeats) / run_together(threads, repeats, work));
  }
  return best;
}

}  // namespace

std::string LimitBench::describe() const {
  return "{\"threads\": " + std::to_string(threads_) + ", \"unit\": \"" + limits_.unit + "\"}";
}

Result<std::string> LimitBench::run(const Command& command) {
  if (command.is("read", 1)) {
    const Result<double> rate = read(static_cast<size_t>(command.numbers[0]));
    if (!rate.ok()) return rate.status();
    return to_json("bytes_per_s", *rate);
  }
  if (command.is("multiply", 0)) return to_json("operations_per_s", multiply());
  return Status::error("'" + command.name + "' is not a command: read BYTES, or multiply");
}

Result<double> LimitBench::read(size_t bytes) {
  const size_t unit = kReadUnit * static_cast<size_t>(threads_);
  const size_t size = std::max((bytes + unit - 1) / unit, size_t{1}) * unit;
  const Status status = allocate(size);
  if (!status.ok()) return status;
  const size_t part = size / static_cast<size_t>(threads_);
  const double rate = best_rate(threads_, [&](int32_t thread, size_t repeats) {
    uint64_t sum = 0;
    for (; repeats > 0; --repeats) sum += limits_.read(memory_.data() + thread * part, part);
    return sum;
  });
  return rate * static_cast<double>(size);
}

double LimitBench::multiply() const {
  if (limits_.multiply == nullptr) return 0.0;
  constexpr size_t kLoops = 20000;
  const double rate = best_rate(
      threads_, [&](int32_t, size_t repeats) { return limits_.multiply(repeats * kLoops); });
  return rate * static_cast<double>(kLoops * limits_.operations) * threads_;
}

Status LimitBench::allocate(size_t size) {
  if (size == memory_.size()) return {};
  memory_ = {};  // the old is freed first
  memory_ = platform::Pages::allocate(size, platform::Pages::Kind::kHuge);  // the fastest there is
  if (!memory_.valid()) {
    return Status::error("there is no memory for " + std::to_string(size) +
                         " bytes: measure a smaller model");
  }
  // Each thread touches first what it will read, so that the memory is near it.
  const size_t part = size / static_cast<size_t>(threads_);
  run_together(threads_, 1, [&](int32_t thread, size_t) {
    std::memset(memory_.data() + thread * part, 1, part);
    return uint64_t{0};
  });
  return {};
}

}  // namespace thimble::bench
