#pragma once

#include <string>

#include "runner/runner.h"

namespace thimble {

/// The draft that looks for repetitions in the text.
inline constexpr const char* kDraftNgram = "ngram";

/// Makes a runner verify drafts: kDraftNgram, or the path of a smaller model, which is loaded with
/// as many threads; "": none. On failure nothing changes.
Status use_draft(Runner& runner, const std::string& draft);

}  // namespace thimble
