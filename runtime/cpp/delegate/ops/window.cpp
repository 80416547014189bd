#include "delegate/ops/window.h"

#include "delegate/ops/checker.h"

namespace thimble::cpu {
namespace {

constexpr uint32_t kMostSide = uint32_t{1} << 20;

}  // namespace

Side Side::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3), table.scalar<uint32_t>(4), table.scalar<uint32_t>(5),
          table.scalar<uint32_t>(6)};
}

void Side::check(Checker* checker) const {
  for (const uint32_t number : {size, kernel, stride, dilation, output}) {
    checker->check(number >= 1 && number <= kMostSide,
                   "has a window of " + std::to_string(number) + " numbers");
  }
  for (const uint32_t zeros : {padding, behind}) {
    checker->check(zeros <= kMostSide, "has a padding of " + std::to_string(zeros));
  }
}

bool Side::shorten(size_t numbers) {
  const size_t all = numbers + padding + behind, span = size_t{dilation} * (kernel - 1) + 1;
  if (numbers > size || all < span) return false;
  size = static_cast<uint32_t>(numbers);
  output = static_cast<uint32_t>((all - span) / stride + 1);
  return true;
}

bool Window::shorten(size_t numbers) {
  if (vertical.size == 1) return horizontal.shorten(numbers);
  return numbers % horizontal.size == 0 && vertical.shorten(numbers / horizontal.size);
}

void Window::check(uint32_t output, Checker* checker) const {
  vertical.check(checker);
  horizontal.check(checker);
  checker->check(outputs() <= kMostSampleRows && taps() <= kernels::kMostColumns,
                 "has " + std::to_string(outputs()) + " windows");
  checker->has_height(output, static_cast<size_t>(outputs()));
}

}  // namespace thimble::cpu
