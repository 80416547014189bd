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
    uint8_t allowed = 0;
    uint8_t refused = 255;
    bool loops = false;  ///< every plain character leads back
  };

  bool check(Recognizer& recognizer, Recognizer::State state, size_t count);
  bool successors(Recognizer& recognizer, Recognizer::State state,
                  std::vector<Recognizer::State>* states) const;

  std::unordered_map<Recognizer::State, Known> known_;
  int budget_ = 0;
};

}  // namespace thimble
