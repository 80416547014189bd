#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace thimble::cpu {

/// A row that an expert computes, and the factor of what it computes.
struct RoutedRow {
  uint32_t row;
  float share;
};

/// How experts are chosen.
struct RoutingForm {
  size_t experts;
  size_t chosen;    ///< of each row, 1 to `experts`
  bool normalized;  ///< shares are the softmax over the chosen scores; else over all
  /// Scores become their sigmoid, and shares are those of the chosen, or, if normalized, these
  /// divided by their sum + 1e-6.
  bool sigmoid = false;
  const float* choice_bias = nullptr;  ///< of sigmoids: [experts], added for the choice; or null
  float share_scale = 1;               ///< of sigmoids: a factor on the shares
};

/// Which rows of a chunk go to which experts: to those with the highest scores, of equal ones the
/// first. Depends on a row's own scores alone.
class Routing {
 public:
  explicit Routing(const RoutingForm& form) : form_(form) {}

  /// Bytes of the memory that route() works in, for so many rows.
  size_t bytes(size_t rows) const {
    return (3 * form_.experts + 2) * sizeof(uint32_t) + bytes_per_row() * rows;
  }
  size_t bytes_per_row() const { return 2 * form_.chosen * sizeof(RoutedRow); }

  /// \param scores [rows][experts], rows `stride` floats apart.
  /// \param memory bytes(), aligned to 8, used as long as this object.
  void route(const float* scores, size_t stride, size_t rows, const kernels::Variant& kernels,
             uint8_t* memory);

  /// The number of rows of an expert.
  size_t count(size_t expert) const { return first_[expert + 1] - first_[expert]; }
  /// How many rows the experts before it have.
  size_t before(size_t expert) const { return first_[expert]; }
  /// The rows of an expert, in ascending order.
  const RoutedRow* rows(size_t expert) const { return sorted_ + first_[expert]; }
  /// How many experts have a row.
  size_t used() const;

 private:
  void choose(const float* scores, RoutedRow* best) const;
  void share_softmax(const float* scores, const kernels::Variant& kernels, float* numbers,
                     RoutedRow* best) const;
  void share_sigmoids(const float* sigmoids, RoutedRow* best) const;

  RoutingForm form_;
  RoutedRow* sorted_ = nullptr;  ///< by expert, then by row
  uint32_t* first_ = nullptr;    ///< [experts + 1], of each expert in sorted_
};

}  // namespace thimble::cpu
