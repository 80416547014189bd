#include "constraint/interruption.h"

#include <cstdint>
#include <utility>

namespace thimble {
namespace {

constexpr uint32_t kChecks = 64;  // of which one asks

thread_local Interruption* now = nullptr;
thread_local uint32_t checks = 0;

}  // namespace

Interruption::Interruption(const StillWanted* wanted)
    : wanted_(wanted), outer_(std::exchange(now, this)) {}

Interruption::~Interruption() { now = outer_; }

Status Interruption::status() const {
  if (!interrupted_) return {};
  return Status::error("the answer was cancelled while its constraint was compiled");
}

Status Interruption::check() {
  if (now == nullptr || now->wanted_ == nullptr || !*now->wanted_) return {};
  if (++checks % kChecks == 0 && !(*now->wanted_)()) now->interrupted_ = true;
  return now->status();
}

}  // namespace thimble
