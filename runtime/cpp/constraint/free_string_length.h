#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "constraint/recognizer.h"

namespace thimble {

/// For how many plain characters (those that a JSON string holds without an escape) a state allows
/// whichever come.
class FreeStringLength {
 public:
  /// Whether any `count` plain characters may follow, at most 255. May say no where that would take
  /// long to find out.
  bool allows(Recognizer& recognizer, Recognizer::State state, size_t count);

  /// The number of plain characters up to which any may follow, and after which none may; `most` if
  /// it is not less. -1 if it depends on the characters, or would take long to find out.
  int exactly(Recognizer& recognizer, Recognizer::State state, int most);

 private:
  struct Known {
    bool is_new = true;
    uint8_t allowed = 0;
    uint8_t refused = 255;
    bool is_exact_known = false;
    int exactly = -1;
    std::vector<Recognizer::State> next;  ///< the states after a character, itself left out
  };

  bool check(Recognizer& recognizer, Recognizer::State state, size_t count);
  int limit(Recognizer& recognizer, Recognizer::State state, int most);
  Known& known(Recognizer& recognizer, Recognizer::State state);

  std::unordered_map<Recognizer::State, Known> known_;
  int budget_ = 0;
};

}  // namespace thimble
