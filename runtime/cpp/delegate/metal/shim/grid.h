#pragma once

/// \file
/// Metal's grid on the processor: one threadgroup after the other, its threads as fibers that run
/// one at a time, each until it waits at a barrier. So a result depends only on the order in which
/// threads resume, which the caller chooses: a kernel that lacks a barrier returns another result
/// in another order. Threadgroup memory starts as NaNs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace thimble::metal_shim {

/// The order in which the threads of a threadgroup go from one barrier to the next.
enum class Order { kForward, kBackward, kShuffled };

/// Where a thread is.
struct ThreadPosition {
  uint32_t group[3];
  uint32_t thread;   ///< in its threadgroup
  uint32_t threads;  ///< of a threadgroup
};

/// One thread's work. \param memory of the threadgroup.
using ThreadFunction = std::function<void(const ThreadPosition& position, void* memory)>;

struct Grid {
  uint32_t groups[3];
  uint32_t threads;  ///< of each threadgroup
  size_t memory_bytes;
};

/// Runs all threads of a grid. Returns an error message if some threads of a threadgroup end while
/// others wait at a barrier; else "".
std::string run_grid(const Grid& grid, Order order, const ThreadFunction& function);

}  // namespace thimble::metal_shim
