#include "kernels/select/cpu_features.h"

namespace thimble::kernels {

uint32_t cpu_features() { return 0; }

}  // namespace thimble::kernels
