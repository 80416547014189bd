#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/recognizer.h"
#include "constraint/token_mask.h"

namespace thimble {

/// Tokens by their bytes, as a tree in which common beginnings are shared.
class TokenTrie {
 public:
  using Token = std::pair<std::string_view, int32_t>;

  /// Of tokens that are sorted and not empty; their bytes are not needed afterwards.
  explicit TokenTrie(const std::vector<Token>& tokens);

  /// Adds the tokens that may follow at a state of the recognizer.
  void walk(Recognizer& recognizer, Recognizer::State state, TokenMask* mask) const;

  size_t bytes() const { return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(int32_t); }

 private:
  /// A node comes after its parent and before its siblings; the tokens that end at node i are those
  /// from tokens_[first of i] to tokens_[first of i + 1].
  struct Node {
    uint32_t end;  ///< the node after all that are below
    uint32_t byte : 8;
    uint32_t first : 24;
  };

  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  size_t depth_ = 0;
};

}  // namespace thimble
