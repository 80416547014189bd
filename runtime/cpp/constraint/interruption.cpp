#include "constraint/interruption.h"

#include <cstdint>
#include <utility>

namespace thimble {
namespace {

constexpr uint32_t kChecks = 64;  // of which one asks

thread_local const StillWanted* wanted_now = nullptr;
thread_local uint32_t checks = 0;

}  // namespace

Interruption::Interruption(const StillWanted* wanted) : outer_(std::exchange(wanted_now, wanted)) {}

Interruption::~Interruption() { wanted_now = outer_; }

Status Interruption::check() {
  if (wanted_now == nullptr || !*wanted_now || ++checks % kChecks != 0 || (*wanted_now)())
    return {};
  return Status::error("the answer was cancelled while its constraint was compiled");
}

}  // namespace thimble
