#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/code_point_map.h"

namespace thimble {

/// A Unicode normalization form (Unicode Standard Annex 15) over tables compiled at export: C, D,
/// KC or KD.
class NormalizationForm {
 public:
  NormalizationForm() = default;

  /// Fails when the tables do not match.
  static Result<NormalizationForm> load(const FlatbufferTable& table);

  /// Whether nothing in `text` can change, as in most texts.
  bool is_inert(std::string_view text) const;

  std::string normalize(std::string_view text) const;

 private:
  struct Mark {
    uint32_t point;
    uint8_t combining_class;
  };

  void compose_marks(std::vector<Mark>* marks) const;

  uint8_t combining_class(uint32_t point) const;
  void append_decomposed(uint32_t point, std::vector<Mark>* marks) const;
  /// The composition of two code points; 0 if there is none.
  uint32_t compose(uint32_t first, uint32_t second) const;

  CodePointMap properties_;
  FlatbufferVector<uint32_t> decomposed_;
  FlatbufferVector<uint32_t> decomposition_ends_;
  FlatbufferVector<uint32_t> decompositions_;
  bool composes_ = false;
  FlatbufferVector<uint32_t> compositions_;
};

}  // namespace thimble
