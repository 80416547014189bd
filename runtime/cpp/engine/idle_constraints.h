#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "constraint/constraint.h"
#include "core/status.h"

namespace thimble {

/// Compiled constraints of requests that have ended, for the next ones of the same text: they keep
/// the states and masks that they have made. May be called from any thread.
class IdleConstraints {
 public:
  using Compile =
      std::function<Result<std::unique_ptr<Constraint>>(const ConstraintText&, const StillWanted&)>;

  /// \param compile may be called by several threads at a time.
  explicit IdleConstraints(Compile compile) : compile_(std::move(compile)) {}

  /// An idle constraint of this text, else a new one, whose compilation ends when it is not wanted
  /// any more; null if the text is none.
  Result<std::unique_ptr<Constraint>> take(const ConstraintText& text, const StillWanted& wanted);
  /// Gives back a constraint that nothing uses any more; null is allowed. The oldest is freed if
  /// there are too many.
  void give(const ConstraintText& text, std::unique_ptr<Constraint> constraint);

 private:
  struct Idle {
    ConstraintText text;
    std::unique_ptr<Constraint> constraint;
  };

  Compile compile_;
  std::mutex mutex_;
  std::list<Idle> idle_;  ///< the newest first
};

}  // namespace thimble
