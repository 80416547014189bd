#include "kernels/select/select.h"

#include <cstdlib>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"

namespace thimble::kernels {
namespace {

bool runs_on(const Variant& variant, uint32_t features) {
  return (variant.required & ~features) == 0;
}

/// The names of the variants that a CPU can run, such as "avx2, scalar".
std::string supported_names(uint32_t features) {
  std::string names;
  for (const Variant* variant : all_variants())
    if (runs_on(*variant, features))
      names += (names.empty() ? "" : ", ") + std::string(variant->name);
  return names;
}

}  // namespace

Selection select_variant(const char* forced, uint32_t features) {
  const bool free_choice = forced == nullptr || *forced == '\0';
  for (const Variant* variant : all_variants()) {
    if (!free_choice && std::string(variant->name) != forced) continue;
    if (runs_on(*variant, features)) return {variant, ""};
    if (!free_choice)
      return {nullptr, std::string(kVariantVariable) + " is " + forced +
                           ", which this CPU cannot run: set it to one of " +
                           supported_names(features) + ", or unset it"};
  }
  return {nullptr, std::string(kVariantVariable) + " is '" + forced +
                       "', which is not a kernel variant: set it to one of " +
                       supported_names(features) + ", or unset it"};
}

Selection select_variant() { return select_variant(std::getenv(kVariantVariable), cpu_features()); }

}  // namespace thimble::kernels
