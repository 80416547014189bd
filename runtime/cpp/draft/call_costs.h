#pragma once

#include <cstddef>

namespace thimble {

/// What calls of the model cost, as measured, to one of the sequences that share them.
class CallCosts {
 public:
  /// \param sequences that each call has a row of at least.
  explicit CallCosts(size_t sequences = 1);

  /// Seconds of a call without drafts; 0: not known yet.
  double call_s() const { return call_s_; }
  /// The cost of each further row; 1: a sequence's share of a call without drafts. So more
  /// sequences make it dearer, because a row more holds up all of them.
  double row() const { return row_ * sequences_; }
  /// Whether the next call should have no drafts, because what one without them takes is not known,
  /// or was measured long ago.
  bool needs_plain() const;
  /// Records a call with so many drafted rows.
  void observe(size_t drafted, double seconds);

 private:
  double sequences_;
  double call_s_ = 0;
  double row_;                ///< of a call without drafts
  size_t drafted_calls_ = 0;  ///< since one without drafts
};

}  // namespace thimble
