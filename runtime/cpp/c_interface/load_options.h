#pragma once

#include "c_interface/shared.h"

namespace thimble {

/// Those that null stands for.
inline constexpr thimble_load_options kLoadDefaults = {0, THIMBLE_CACHE_DEFAULT, 0};

inline Status check(const thimble_load_options& options) {
  return first_error({check("threads", options.threads, 0, kMaxThreads),
                      check<int32_t>("cache_type", options.cache_type, THIMBLE_CACHE_DEFAULT,
                                     THIMBLE_CACHE_INT8)});
}

inline LoadOptions to_load(const thimble_load_options& options) {
  LoadOptions load;
  load.threads = options.threads;
  load.cache_type = options.cache_type;
  load.huge_pages = options.huge_pages != 0;
  return load;
}

}  // namespace thimble
