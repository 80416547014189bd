// Which kernels are chosen; `--selected` prints the choice for this process, or why there is none.

#include "kernels/select/select.h"

#include <cstdio>
#include <cstring>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "tests/cases.h"

namespace {

using namespace thimble::kernels;
using thimble::test::Case;
using thimble::test::expect;

constexpr uint32_t kEverything = ~0u;

bool best_first() {
  for (const Variant* variant : all_variants()) {
    const Selection selection = select_variant(nullptr, variant->required);
    if (!expect(selection.variant == variant, "the best that its own features allow")) return false;
  }
  return expect(select_variant(nullptr, 0).variant == &scalar::kVariant, "scalar on any CPU") &&
         expect(select_variant("", 0).variant == &scalar::kVariant, "an empty name is no name");
}

bool forced() {
  for (const Variant* variant : all_variants())
    if (!expect(select_variant(variant->name, kEverything).variant == variant, "the one forced"))
      return false;
  return true;
}

bool refused() {
  const Selection unknown = select_variant("avx9", 0);
  const Selection unsupported = select_variant(all_variants().variants[0]->name, 0);
  const std::string name = all_variants().variants[0]->name;
  return expect(unknown.variant == nullptr &&
                    unknown.error ==
                        "THIMBLE_KERNELS is 'avx9', which is not a kernel variant: set it "
                        "to one of scalar, or unset it",
                "a sentence for an unknown name") &&
         expect(name == "scalar" ||
                    unsupported.error == "THIMBLE_KERNELS is " + name +
                                             ", which this CPU cannot run: set it to one of "
                                             "scalar, or unset it",
                "a sentence for what this CPU cannot run");
}

constexpr Case kCases[] = {{"best_first", best_first}, {"forced", forced}, {"refused", refused}};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--supported") == 0) {
    for (const Variant* variant : all_variants())
      if ((variant->required & ~cpu_features()) == 0) std::printf("%s\n", variant->name);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--selected") == 0) {
    const Selection selection = select_variant();
    if (selection.variant == nullptr) {
      std::fprintf(stderr, "%s\n", selection.error.c_str());
      return 2;
    }
    std::printf("%s\n", selection.variant->name);
    return 0;
  }
  return thimble::test::run_cases(kCases, argc, argv);
}
