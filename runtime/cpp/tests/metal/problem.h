#pragma once

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "delegate/metal/params.h"
#include "kernels/select/variants.h"
#include "kernels/shared/embedding.h"
#include "tests/cases.h"
#include "tests/kernels/problem.h"
#include "tests/metal/kernels.h"

/// \file
/// What the tests of Metal's kernels share: a kernel beside `scalar`, in every order of threads.

namespace thimble::test {

constexpr metal_shim::Order kOrders[] = {metal_shim::Order::kForward, metal_shim::Order::kBackward,
                                         metal_shim::Order::kShuffled};

/// Memory with a hole behind it, which a kernel that writes too far fills.
template <typename Number>
class Guarded {
 public:
  explicit Guarded(size_t count, Number value = {}) : numbers_(count + kHole, value) {
    std::memset(static_cast<void*>(numbers_.data() + count), 0x5A, kHole * sizeof(Number));
  }

  Number* data() { return numbers_.data(); }
  Number& operator[](size_t i) { return numbers_[i]; }
  std::vector<Number> values() const {
    std::vector<Number> kept = numbers_;
    kept.resize(kept.size() - kHole);
    return kept;
  }
  bool intact() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(numbers_.data() + numbers_.size() - kHole);
    for (size_t i = 0; i < kHole * sizeof(Number); ++i) {
      if (bytes[i] != 0x5A) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kHole = 64;
  std::vector<Number> numbers_;
};

/// `count` numbers in [-1, 1) times `scale`.
inline std::vector<float> random_floats(size_t count, uint32_t seed, float scale = 1) {
  Numbers numbers(seed);
  std::vector<float> values(count);
  for (float& value : values) value = scale * numbers.real();
  return values;
}

/// One run of a kernel on given memory; prints what is wrong.
template <typename Params>
bool run_kernel(metal::Kernel kernel, metal_shim::Order order, const Params& params,
                std::initializer_list<void*> buffers, size_t groups_x, size_t groups_y = 1) {
  metal::Dispatch dispatch{};
  dispatch.kernel = kernel;
  dispatch.groups[0] = static_cast<uint32_t>(groups_x);
  dispatch.groups[1] = static_cast<uint32_t>(groups_y);
  dispatch.groups[2] = 1;
  dispatch.buffer_count = static_cast<uint32_t>(buffers.size());
  dispatch.set_constants(params);
  void* pointers[metal::kMostBuffers];
  std::copy(buffers.begin(), buffers.end(), pointers);
  const std::string wrong = run_on_shim(dispatch, pointers, order);
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  return wrong.empty();
}

inline WeightParams weight_params(const kernels::PackedWeight& weight) {
  const kernels::BlockLayout layout = weight.layout();
  return {static_cast<uint32_t>(weight.format),  static_cast<uint32_t>(weight.rows),
          static_cast<uint32_t>(weight.columns), static_cast<uint32_t>(weight.group_size),
          static_cast<uint32_t>(layout.bytes),   static_cast<uint32_t>(layout.scales),
          static_cast<uint32_t>(layout.values)};
}

}  // namespace thimble::test
