#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/status.h"
#include "model/open_program.h"
#include "picture/picture.h"
#include "picture/picture_settings.h"
#include "picture/tiles.h"

namespace thimble {

/// Whether a token of a text is a row of a picture: such numbers are below 0, which no token is.
inline bool is_row(int64_t token) { return token < 0; }

/// A picture that a model has seen: its rows stand in a text as first, first - 1, ... Equal
/// pictures have equal numbers, by which a cache knows them again.
struct SeenPicture {
  int32_t first;
  size_t count;          ///< of rows
  size_t rows, columns;  ///< of tiles; 0: the whole alone
};

/// The methods of a model that sees: `vision_encoder` makes rows of pictures, and `text_decoder`
/// reads them among those that `token_embedding` makes of tokens, over the caches of `forward`.
class Sight {
 public:
  /// Reads the settings of an open program, which must outlive it; fails if it does not see. No
  /// method is loaded.
  static Result<std::shared_ptr<Sight>> load(OpenProgram& program);

  const PictureSettings& settings() const { return settings_; }

  /// Sees pictures, in order. Rows that are not known are computed, which `interrupted` ends
  /// between tiles: then fewer are returned. Fails if all have more than `most_rows`.
  Result<std::vector<SeenPicture>> see(const std::vector<Picture>& pictures, size_t most_rows,
                                       const std::atomic<bool>* interrupted);

  /// A text with the token of a picture's place for each row that is still known.
  std::vector<int32_t> with_places(std::vector<int32_t> tokens) const;

  /// Runs the decoder over tokens and rows at positions start_pos ... of the cache in use. The
  /// result is the logits of the last one, valid until the next call.
  Result<const float*> read(const std::vector<int64_t>& tokens, int64_t start_pos);

 private:
  struct Known {
    Tiles tiles;  ///< by which it is known
    SeenPicture seen;
    std::vector<float> numbers;  ///< [seen.count][width_]

    size_t bytes() const { return tiles.bytes() + sizeof(float) * numbers.size(); }
  };

  Sight(OpenProgram& program, PictureSettings settings)
      : program_(program), settings_(std::move(settings)) {}
  Status load_methods();
  /// Computes the rows of tiles; false if interrupted.
  Result<bool> compute(Known* known, const std::atomic<bool>* interrupted);
  /// Writes the rows of tokens.
  Status embed(const int64_t* tokens, size_t count, float* rows);
  const float* row(int64_t token) const;
  /// Forgets the oldest, but for the last `kept`, while they have more than kMostBytes.
  void forget(size_t kept);

  OpenProgram& program_;
  const PictureSettings settings_;
  size_t vocab_size_ = 0;
  size_t width_ = 0;         ///< of a row; 0: the methods are not loaded
  std::deque<Known> known_;  ///< the last one seen is the last
  int64_t next_ = -1;        ///< the first number of the next picture
};

}  // namespace thimble
