#pragma once

#include <functional>

#include "core/status.h"

namespace thimble {

/// Asked now and then while a constraint is compiled: false ends that.
using StillWanted = std::function<bool()>;

/// While one lives, what its thread compiles is interrupted once it is not wanted any more.
class Interruption {
 public:
  /// \param wanted must outlive it; null, or an empty function: nothing interrupts.
  explicit Interruption(const StillWanted* wanted);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Fails if what the thread compiles is not wanted any more. Costs little.
  static Status check();

  /// Fails if a check has failed, of which a caller may have made an error of its own, or none.
  Status status() const;

 private:
  const StillWanted* wanted_;
  Interruption* outer_;
  bool interrupted_ = false;
};

}  // namespace thimble
