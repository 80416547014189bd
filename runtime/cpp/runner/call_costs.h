#pragma once

#include <cstddef>

namespace thimble {

/// What calls of the model cost, as measured.
class CallCosts {
 public:
  /// Seconds of a call of one row; 0: not known yet.
  double call_s() const { return call_s_; }
  /// The cost of each further row; 1: a call of one row.
  double row() const { return row_; }
  /// Records a call of `rows` rows.
  void observe(size_t rows, double seconds);

 private:
  double call_s_ = 0;
  double row_ = 0.05;
};

}  // namespace thimble
