#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "answer/generate_options.h"
#include "answer/stats.h"
#include "constraint/constraint.h"
#include "core/status.h"
#include "see/sight.h"

namespace thimble {

/// A text to continue.
struct Request {
  std::vector<int32_t> tokens;     ///< at least one; below 0: a row of a picture
  Pictures pictures;               ///< the engine's: those of the tokens
  GenerateOptions options;         ///< `constraint` and `interrupted` are the engine's
  std::vector<int32_t> predicted;  ///< the engine's: tokens of the options' prediction
  ConstraintText constraint;       ///< that the answer must match
  StillWanted wanted;              ///< asked while that is compiled; null: it is wanted
  std::string adapter;             ///< that it runs with; "": none
  TextCallback on_text;            ///< called by Engine::step()
  /// Called once by Engine::step(), after which the engine has forgotten the request: how it went,
  /// and its statistics.
  std::function<void(const Status& status, const Stats& stats)> on_end;
};

}  // namespace thimble
