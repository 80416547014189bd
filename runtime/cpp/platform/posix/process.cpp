#include "platform/process.h"

#include <unistd.h>

namespace thimble::platform {

int64_t process_id() { return getpid(); }

}  // namespace thimble::platform
