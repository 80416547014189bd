#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace thimble::test {

/// A test case: a name, and a function that returns whether it passed.
struct Case {
  const char* name;
  bool (*run)();
};

/// Whether two lists of floats or of structs of floats have the same bits; empty lists have.
template <typename Value>
bool equal_bits(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Value)) == 0);
}

/// Prints what was expected where `condition` does not hold, and returns it.
inline bool expect(bool condition, const char* what) {
  if (!condition) std::fprintf(stderr, "expected %s\n", what);
  return condition;
}

/// Runs the cases that the command line names, or all; exits 0 when all are there and passed.
template <int kCount>
int run_cases(const Case (&cases)[kCount], int argc, char** argv) {
  int ran = 0, failed = 0;
  for (const Case& test_case : cases) {
    const auto is_named = [&](const char* name) { return std::strcmp(name, test_case.name) == 0; };
    if (argc > 1 && std::none_of(argv + 1, argv + argc, is_named)) continue;
    const bool passed = test_case.run();
    if (!passed) std::fprintf(stderr, "%s failed\n", test_case.name);
    ++ran;
    failed += passed ? 0 : 1;
  }
  return ran >= argc - 1 && failed == 0 ? 0 : 1;
}

}  // namespace thimble::test
