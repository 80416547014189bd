#pragma once

#include <cstddef>
#include <cstdio>

#include "delegate/program/program.h"
#include "tests/cases.h"

namespace thimble::test {

/// How a program is damaged, and a part of the sentence that refuses it.
struct Damage {
  void (*apply)(cpu::Program* program);
  const char* sentence;
};

/// Whether each of the damages alone makes the check refuse a copy of the program.
template <size_t kCount>
bool all_are_refused(const cpu::Program& whole, const Damage (&damages)[kCount]) {
  for (const Damage& damage : damages) {
    cpu::Program program = whole;
    damage.apply(&program);
    const Status status = cpu::check_program(&program);
    if (status.message().find(damage.sentence) != std::string::npos) continue;
    std::fprintf(stderr, "got: %s\n", status.message().c_str());
    return expect(false, damage.sentence);
  }
  return true;
}

}  // namespace thimble::test
