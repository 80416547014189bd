#include "delegate/ops/routing.h"

#include <algorithm>

namespace thimble::cpu {

void Routing::route(const float* scores, size_t stride, size_t rows,
                    const kernels::Variant& kernels, uint8_t* memory) {
  // Of each row its experts, in ascending order, with their shares.
  auto* const chosen = reinterpret_cast<RoutedRow*>(memory);
  sorted_ = chosen + rows * chosen_;
  first_ = reinterpret_cast<uint32_t*>(sorted_ + rows * chosen_);
  auto* const numbers = reinterpret_cast<float*>(first_ + experts_ + 2);
  std::fill_n(first_, experts_ + 2, 0);
  for (size_t row = 0; row < rows; ++row) {
    const float* own = scores + row * stride;
    RoutedRow* best = chosen + row * chosen_;
    choose(own, best);
    if (normalized_) {
      for (size_t i = 0; i < chosen_; ++i) numbers[i] = own[best[i].row];
    } else {
      std::copy_n(own, experts_, numbers);
    }
    kernels.softmax(numbers, normalized_ ? chosen_ : experts_);
    for (size_t i = 0; i < chosen_; ++i) {
      best[i].share = numbers[normalized_ ? i : best[i].row];
      ++first_[best[i].row + 2];
    }
  }
  // A counting sort: first_[e + 1] is where the next row of expert e goes, and in the end where
  // those of expert e + 1 begin.
  for (size_t i = 2; i < experts_ + 2; ++i) first_[i] += first_[i - 1];
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < chosen_; ++i) {
      const RoutedRow& expert = chosen[row * chosen_ + i];
      sorted_[first_[expert.row + 1]++] = {static_cast<uint32_t>(row), expert.share};
    }
  }
}

void Routing::choose(const float* scores, RoutedRow* best) const {
  // The highest scores so far, the highest first; a NaN is above nothing.
  size_t found = 0;
  for (uint32_t expert = 0; expert < experts_; ++expert) {
    const float score = scores[expert];
    size_t place = found < chosen_ ? found++ : chosen_;
    while (place > 0 && score > scores[best[place - 1].row]) {
      if (place < chosen_) best[place] = best[place - 1];
      --place;
    }
    if (place < chosen_) best[place].row = expert;
  }
  std::sort(best, best + chosen_,
            [](const RoutedRow& a, const RoutedRow& b) { return a.row < b.row; });
}

size_t Routing::used() const {
  size_t result = 0;
  for (size_t expert = 0; expert < experts_; ++expert) result += count(expert) > 0;
  return result;
}

}  // namespace thimble::cpu
