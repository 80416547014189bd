#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/token_texts.h"

namespace thimble {

/// What is done with the joined text of tokens (schemas/tokenizer.fbs, Finish).
struct Finish {
  enum Kind : uint8_t { kReplace, kStripLeft, kStripRight };

  uint8_t kind;
  uint32_t character;
  uint32_t count;
  std::string_view text;
};

/// What tokens become as text (schemas/tokenizer.fbs, Decoder). TokenStream joins the texts.
class Decoder {
 public:
  static Result<Decoder> load(const FlatbufferTable& table);

  int32_t vocab_size() const { return static_cast<int32_t>(texts_.size()); }
  const TokenTexts& texts() const { return texts_; }

  /// Whether `id` adds nothing to any text: a special token, or no token.
  bool skips(int32_t id) const;

  /// What `id` reads as: empty if it is skipped.
  std::string_view text(int32_t id, bool first, bool last) const;

  bool start_lasts() const { return start_lasts_; }
  bool knows_last() const { return drops_last_space_ || last_.ids.size() > 0; }
  /// Whether the text of tokens is the texts of each, one behind the other, except at its start.
  bool joins_texts() const;
  bool replaces_each_byte() const { return replaces_each_byte_; }
  bool skipped_cut() const { return skipped_cut_; }
  const std::vector<Finish>& finish() const { return finish_; }

 private:
  struct Exceptions {
    explicit Exceptions(const FlatbufferTable& table)
        : ids(table.vector<uint32_t>(0)),
          texts(table.vector<uint32_t>(1), table.vector<uint8_t>(2)) {}
    Exceptions() = default;

    FlatbufferVector<uint32_t> ids;
    TokenTexts texts;
  };

  TokenTexts texts_;
  FlatbufferVector<uint32_t> skipped_;
  Exceptions first_;
  bool drops_first_space_ = false;
  bool start_lasts_ = false;
  Exceptions last_;
  bool drops_last_space_ = false;
  bool replaces_each_byte_ = false;
  bool skipped_cut_ = false;
  std::vector<Finish> finish_;
};

}  // namespace thimble
