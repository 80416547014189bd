// delegate_test SUITE [CASE...]: the tests of the CPU delegate, of which each file is a suite. They
// are one program because their headers take longer to compile than they themselves.

#include <cstring>

#include "tests/delegate/suite.h"

int main(int argc, char** argv) {
  for (const thimble::test::Suite* suite : thimble::test::Suite::all()) {
    if (argc < 2 || std::strcmp(argv[1], suite->name) != 0) continue;
    return thimble::test::run_cases(suite->cases, argc - 1, argv + 1);
  }
  std::fputs("usage: delegate_test SUITE [CASE...], of:", stderr);
  for (const auto* suite : thimble::test::Suite::all()) std::fprintf(stderr, " %s", suite->name);
  std::fputs("\n", stderr);
  return 2;
}
