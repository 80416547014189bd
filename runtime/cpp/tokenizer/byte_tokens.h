#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"

namespace thimble {

/// The token of each of the 256 bytes; -1 if there is none. Read in place.
class ByteTokens {
 public:
  ByteTokens() = default;

  /// Fails when there are some, but not 256, or one is no token. None is fine.
  static Result<ByteTokens> load(FlatbufferVector<int32_t> tokens, int32_t vocab_size) {
    if (!tokens.empty() && tokens.size() != 256) return Status::error("its bytes are not 256");
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < -1 || tokens[i] >= vocab_size) {
        return Status::error("one of its bytes is no token");
      }
    }
    ByteTokens loaded;
    loaded.tokens_ = tokens;
    return loaded;
  }

  int32_t operator[](uint8_t byte) const { return tokens_.empty() ? -1 : tokens_[byte]; }

  /// Appends the tokens of `bytes`; false, and nothing appended, when one has none.
  template <typename Id>
  bool append(std::string_view bytes, std::vector<Id>* ids) const {
    for (const char c : bytes) {
      if ((*this)[static_cast<uint8_t>(c)] < 0) return false;
    }
    for (const char c : bytes) {
      ids->push_back(static_cast<Id>(tokens_[static_cast<uint8_t>(c)]));
    }
    return true;
  }

 private:
  FlatbufferVector<int32_t> tokens_;
};

}  // namespace thimble
