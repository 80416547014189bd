#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

/// Whether a test takes the next of its shapes. Where the environment has THIMBLE_ONE_OF, one
/// of as many is chosen, always the same ones: sanitized and emulated programs are slow.
inline bool is_chosen() {
  static const char* const one_of = std::getenv("THIMBLE_ONE_OF");
  static const uint32_t count = one_of == nullptr ? 1 : std::max(1, std::atoi(one_of));
  static uint32_t shape = 0;
  return (shape++ * 2654435761u >> 16) % count == 0;  // Knuth's multiplicative hash
}

/// Runs the cases that the command line names, or all; exits 0 when all are there and passed.
template <typename Cases>
int run_cases(const Cases& cases, int argc, char** argv) {
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
