#include "delegate/metal/shim/grid.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>

namespace metal {

enum class mem_flags;
void threadgroup_barrier(mem_flags);

}  // namespace metal

namespace thimble::metal_shim {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;

/// The threads of one threadgroup; their stacks serve one threadgroup after the other.
class Threadgroup {
 public:
  Threadgroup(const Grid& grid, Order order, const ThreadFunction& function)
      : order_(order),
        function_(function),
        fibers_(grid.threads),
        sequence_(grid.threads),
        memory_(grid.memory_bytes),
        position_{{0, 0, 0}, 0, grid.threads} {
    for (Fiber& fiber : fibers_) fiber.stack.reset(new uint8_t[kStackBytes]);
    for (uint32_t i = 0; i < grid.threads; ++i) {
      sequence_[i] = order == Order::kBackward ? grid.threads - 1 - i : i;
    }
  }

  /// Runs all threads to their end; false if some ended while others waited.
  bool run(uint32_t x, uint32_t y, uint32_t z) {
    position_.group[0] = x;
    position_.group[1] = y;
    position_.group[2] = z;
    std::fill(memory_.begin(), memory_.end(), uint8_t{0xFF});
    for (Fiber& fiber : fibers_) start(&fiber);
    size_t running = fibers_.size();
    while (running == fibers_.size()) {
      if (order_ == Order::kShuffled) shuffle();
      for (const uint32_t thread : sequence_) running -= resume(thread) ? 0 : 1;
    }
    return running == 0;
  }

  /// Called by the running thread: back to run().
  void wait() { swapcontext(&fibers_[current_].context, &scheduler_); }

  static Threadgroup* running;

 private:
  struct Fiber {
    std::unique_ptr<uint8_t[]> stack;
    ucontext_t context;
    bool ended;
  };

  void start(Fiber* fiber) {
    fiber->ended = false;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = &scheduler_;
    makecontext(&fiber->context, &Threadgroup::enter, 0);
  }

  /// Lets a thread run to its next barrier or its end; returns whether it has more to run.
  bool resume(uint32_t thread) {
    current_ = thread;
    running = this;
    swapcontext(&scheduler_, &fibers_[thread].context);
    return !fibers_[thread].ended;
  }

  static void enter() {
    Threadgroup& self = *running;
    ThreadPosition position = self.position_;
    position.thread = self.current_;
    self.function_(position, self.memory_.data());
    self.fibers_[self.current_].ended = true;
  }

  void shuffle() {
    for (size_t i = sequence_.size(); i > 1; --i) {
      random_ = random_ * 1664525u + 1013904223u;
      std::swap(sequence_[i - 1], sequence_[(random_ >> 8) % i]);
    }
  }

  const Order order_;
  const ThreadFunction& function_;
  std::vector<Fiber> fibers_;
  std::vector<uint32_t> sequence_;
  std::vector<uint8_t> memory_;
  ThreadPosition position_;
  ucontext_t scheduler_;
  uint32_t current_ = 0;
  uint32_t random_ = 1;
};

Threadgroup* Threadgroup::running = nullptr;

}  // namespace

std::string run_grid(const Grid& grid, Order order, const ThreadFunction& function) {
  Threadgroup threadgroup(grid, order, function);
  for (uint32_t z = 0; z < grid.groups[2]; ++z) {
    for (uint32_t y = 0; y < grid.groups[1]; ++y) {
      for (uint32_t x = 0; x < grid.groups[0]; ++x) {
        if (threadgroup.run(x, y, z)) continue;
        return "some threads of threadgroup " + std::to_string(x) + ", " + std::to_string(y) +
               " ended while others wait at a barrier";
      }
    }
  }
  return "";
}

}  // namespace thimble::metal_shim

void metal::threadgroup_barrier(metal::mem_flags) {
  thimble::metal_shim::Threadgroup::running->wait();
}
