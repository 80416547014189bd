#pragma once

#include "c_interface/shared.h"

namespace thimble {

/// Those that null stands for.
inline constexpr thimble_load_options kLoadDefaults = {0, THIMBLE_CACHE_DEFAULT, 0};

inline Status check(const thimble_load_options& options) {
  return first_error({check("threads", options.threads, 0, kMaxThreads),
                      check<int32_t>("cache_type", options.cache_type, THIMBLE_CACHE_DEFAULT,
                                     THIMBLE_CACHE_INT8_INT4)});
}

/// `public_key` as in thimble_signed.h.
inline Result<LoadOptions> to_load(const thimble_load_options* given, const char* public_key) {
  const thimble_load_options& options = given == nullptr ? kLoadDefaults : *given;
  const Status right = check(options);
  if (!right.ok()) return right;
  if (public_key != nullptr && *public_key == '\0') {
    return Status::error("public_key is empty: give a key, or null to require no signature");
  }
  LoadOptions load;
  if (public_key != nullptr) load.signer = public_key;
  load.threads = options.threads;
  load.cache_type = options.cache_type;
  load.huge_pages = options.huge_pages != 0;
  return load;
}

}  // namespace thimble
