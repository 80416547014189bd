#include "delegate/ops/routing.h"

#include <algorithm>

namespace thimble::cpu {

void Routing::route(const float* scores, size_t stride, size_t rows,
                    const kernels::Variant& kernels, uint8_t* memory) {
  // Of each row its experts, in ascending order, with their shares.
  const size_t experts = form_.experts, count = form_.chosen;
  auto* const chosen = reinterpret_cast<RoutedRow*>(memory);
  sorted_ = chosen + rows * count;
  first_ = reinterpret_cast<uint32_t*>(sorted_ + rows * count);
  auto* const numbers = reinterpret_cast<float*>(first_ + experts + 2);
  float* const choices = numbers + experts;
  std::fill_n(first_, experts + 2, 0);
  for (size_t row = 0; row < rows; ++row) {
    const float* own = scores + row * stride;
    RoutedRow* best = chosen + row * count;
    if (form_.sigmoid) {
      using kernels::Function;
      kernels.elementwise({Function::kSigmoid, own, nullptr, 0, experts, numbers});
      if (form_.choice_bias != nullptr) {
        kernels.elementwise({Function::kAdd, numbers, form_.choice_bias, 0, experts, choices});
      }
      choose(form_.choice_bias == nullptr ? numbers : choices, best);
      share_sigmoids(numbers, best);
    } else {
      choose(own, best);
      share_softmax(own, kernels, numbers, best);
    }
    for (size_t i = 0; i < count; ++i) ++first_[best[i].row + 2];
  }
  // A counting sort: first_[e + 1] is where the next row of expert e goes, and in the end where
  // those of expert e + 1 begin.
  for (size_t i = 2; i < experts + 2; ++i) first_[i] += first_[i - 1];
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < count; ++i) {
      const RoutedRow& expert = chosen[row * count + i];
      sorted_[first_[expert.row + 1]++] = {static_cast<uint32_t>(row), expert.share};
    }
  }
}

void Routing::share_softmax(const float* scores, const kernels::Variant& kernels, float* numbers,
                            RoutedRow* best) const {
  const bool normalized = form_.normalized;
  if (normalized) {
    for (size_t i = 0; i < form_.chosen; ++i) numbers[i] = scores[best[i].row];
  } else {
    std::copy_n(scores, form_.experts, numbers);
  }
  kernels.softmax(numbers, normalized ? form_.chosen : form_.experts);
  for (size_t i = 0; i < form_.chosen; ++i) {
    best[i].share = numbers[normalized ? i : best[i].row];
  }
}

void Routing::share_sigmoids(const float* sigmoids, RoutedRow* best) const {
  constexpr float kLeastSum = 1e-6f;
  float sum = kLeastSum;
  for (size_t i = 0; i < form_.chosen; ++i) sum += sigmoids[best[i].row];
  for (size_t i = 0; i < form_.chosen; ++i) {
    const float own = sigmoids[best[i].row];
    best[i].share = (form_.normalized ? own / sum : own) * form_.share_scale;
  }
}

void Routing::choose(const float* scores, RoutedRow* best) const {
  // The highest scores so far, the highest first; a NaN is above nothing.
  size_t count = 0;
  for (uint32_t expert = 0; expert < form_.experts; ++expert) {
    const float score = scores[expert];
    size_t place = count < form_.chosen ? count++ : form_.chosen;
    while (place > 0 && score > scores[best[place - 1].row]) {
      if (place < form_.chosen) best[place] = best[place - 1];
      --place;
    }
    if (place < form_.chosen) best[place].row = expert;
  }
  std::sort(best, best + form_.chosen,
            [](const RoutedRow& a, const RoutedRow& b) { return a.row < b.row; });
}

size_t Routing::used() const {
  size_t result = 0;
  for (size_t expert = 0; expert < form_.experts; ++expert) result += count(expert) > 0;
  return result;
}

}  // namespace thimble::cpu
