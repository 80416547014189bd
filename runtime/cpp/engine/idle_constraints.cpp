#include "engine/idle_constraints.h"

#include <algorithm>
#include <utility>

namespace thimble {

namespace {

constexpr size_t kMost = 8;

}  // namespace

Result<std::unique_ptr<Constraint>> IdleConstraints::take(const ConstraintText& text,
                                                          const StillWanted& wanted) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = std::find_if(idle_.begin(), idle_.end(),
                                    [&text](const Idle& idle) { return idle.text == text; });
    if (entry != idle_.end()) {
      std::unique_ptr<Constraint> constraint = std::move(entry->constraint);
      idle_.erase(entry);
      return constraint;
    }
  }
  return compile_(text, wanted);  // without the lock: step() gives constraints back meanwhile
}

void IdleConstraints::give(const ConstraintText& text, std::unique_ptr<Constraint> constraint) {
  if (constraint == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_front({text, std::move(constraint)});
  if (idle_.size() > kMost) idle_.pop_back();
}

}  // namespace thimble
