#pragma once

#include <cstddef>
#include <string>

#include "c_interface/thimble_pictures.h"
#include "core/status.h"
#include "picture/picture.h"
#include "runner/runner.h"

namespace thimble {

/// Decodes a picture; `name` is what to call it.
Result<Picture> read_given(const thimble_picture& given, const std::string& name);

/// Takes pictures into a text of the runner's model, in order, one decoded at a time. Fails with
/// the first that cannot be read.
Result<Pictures> see_given(const Runner& runner, const thimble_picture* pictures, size_t count);

}  // namespace thimble
