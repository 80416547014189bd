#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"

namespace thimble {

inline Status error_at(const std::string& path, const std::string& what) {
  return Status::error("the JSON schema at " + path + " " + what);
}

/// How a JSON schema is read, and what its author should know of the result; each sentence once.
struct SchemaReading {
  bool relax = false;              ///< what is not supported is left out, and is no error
  std::vector<std::string> notes;  ///< where texts are other than the schema says
  std::vector<std::string> left_out = {};

  void note(std::string sentence) { add(std::move(sentence), &notes); }

  /// Leaves a part of a schema out that is not supported, as the sentence says; fails with it
  /// unless that is allowed.
  Status leave_out(std::string sentence) {
    if (!relax) return Status::error(std::move(sentence));
    add(std::move(sentence), &left_out);
    return {};
  }

 private:
  static void add(std::string sentence, std::vector<std::string>* list) {
    if (std::find(list->begin(), list->end(), sentence) == list->end()) {
      list->push_back(std::move(sentence));
    }
  }
};

}  // namespace thimble
