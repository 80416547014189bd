#pragma once

#include <vector>

#include "tests/cases.h"

namespace thimble::test {

/// The cases of a file of the program that has those of several: it registers itself.
class Suite {
 public:
  Suite(const char* name, std::vector<Case> cases) : name(name), cases(std::move(cases)) {
    all().push_back(this);
  }
  static std::vector<const Suite*>& all() {
    static std::vector<const Suite*> suites;
    return suites;
  }

  const char* const name;
  const std::vector<Case> cases;
};

}  // namespace thimble::test
