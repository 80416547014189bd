#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "constraint/recognizer.h"

namespace thimble {

/// For how many plain characters (those that a JSON string holds without an escape) a state allows
/// whichever come.
class PlainReach {
 public:
  /// Whether any `count` plain characters may follow, at most 255. May say no where that would take
  /// long to find out.
  bool allows(Recognizer& recognizer, Recognizer::State state, size_t count);

 private:
  struct Known {
    bool is_new = true;
    uint8_t allowed = 0;
    uint8_t refused = 255;
    std::vector<Recognizer::State> next;  ///< the states after a character, itself left out
  };

  bool check(Recognizer& recognizer, Recognizer::State state, size_t count);
  Known& known(Recognizer& recognizer, Recognizer::State state);

  std::unordered_map<Recognizer::State, Known> known_;
  int budget_ = 0;
};

}  // namespace thimble
