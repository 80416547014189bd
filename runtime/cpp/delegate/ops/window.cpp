#include "delegate/ops/window.h"

#include "delegate/ops/checker.h"

namespace thimble::cpu {
namespace {

constexpr uint32_t kMostSide = uint32_t{1} << 20;

}  // namespace

Side Side::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3), table.scalar<uint32_t>(4), table.scalar<uint32_t>(5)};
}

void Side::check(Checker* checker) const {
  for (const uint32_t number : {size, kernel, stride, dilation, output}) {
    checker->check(number >= 1 && number <= kMostSide,
                   "has a window of " + std::to_string(number) + " numbers");
  }
  checker->check(padding <= kMostSide, "has a padding of " + std::to_string(padding));
}

void Window::check(uint32_t output, Checker* checker) const {
  vertical.check(checker);
  horizontal.check(checker);
  checker->check(outputs() <= kMostSegmentRows && taps() <= kernels::kMostColumns,
                 "has " + std::to_string(outputs()) + " windows");
  checker->has_height(output, static_cast<size_t>(outputs()));
}

}  // namespace thimble::cpu
