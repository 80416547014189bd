#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/status.h"
#include "model/open_program.h"
#include "picture/picture.h"
#include "picture/picture_settings.h"
#include "picture/tiles.h"
#include "platform/threads.h"

namespace thimble {

/// Whether a token of a text is a row of a picture: such numbers are below 0, which no token is.
inline bool is_row(int64_t token) { return token < 0; }

/// One behind the last row of the picture whose row is at `at`, or behind the token there.
template <typename Token>
size_t picture_end(const std::vector<Token>& tokens, size_t at) {
  size_t end = at + 1;
  while (is_row(tokens[at]) && end < tokens.size() && tokens[end] == tokens[end - 1] - 1) ++end;
  return end;
}

/// The first row of the picture among whose rows a text is cut at `at`; `at`, if it is not.
size_t before_picture(const std::vector<int32_t>& tokens, size_t at);

/// A picture of a text, where its rows stand as first, first - 1, ... Equal pictures have equal
/// numbers, by which a cache knows them again.
struct SeenPicture {
  Tiles tiles;  ///< by which it is known
  int32_t first;
  size_t count;                ///< of rows
  std::vector<float> numbers;  ///< of the rows, [count][width]; the model's thread alone uses them
  std::vector<bool> computed;  ///< which tiles' rows are in `numbers`

  bool has(int32_t row) const { return row <= first && first - row < static_cast<int64_t>(count); }
};
using Pictures = std::vector<std::shared_ptr<SeenPicture>>;

/// Fails where a text has a part of a picture: what its rows would attend to is not known.
Status check_whole(const std::vector<int32_t>& tokens, const Pictures& pictures);

/// The methods of a model that sees: `vision_encoder` makes rows of pictures, and `text_decoder`
/// reads them among those that `token_embedding` makes of tokens, over the caches of `forward`.
/// Texts hold their pictures; the last ones up to 64 MiB are known when nothing holds them.
class Sight {
 public:
  /// Reads the settings of an open program, which must outlive it; fails if it does not see. No
  /// method is loaded.
  static Result<std::shared_ptr<Sight>> load(OpenProgram& program);

  const PictureSettings& settings() const { return settings_; }

  /// Loads the methods, if they are not: else computing does. A saved cache is of all that are.
  Status load_methods();

  /// Takes a picture into a text behind `text`, those before it; its rows are computed when they
  /// are needed. Fails if all have more than `most_rows`, or if those of all texts have too many
  /// bytes. May be called from any thread.
  Status see(const Picture& picture, size_t most_rows, Pictures* text) {
    return see(Tiles(picture, settings_), most_rows, text);
  }
  Status see(Tiles tiles, size_t most_rows, Pictures* text);

  /// The pictures of a text, which are known as long as they are held. Fails if one is not known
  /// any more. May be called from any thread.
  Result<Pictures> hold(const std::vector<int32_t>& tokens) const;

  /// How many of at most `count` tokens from `start` on a call may read, so that a picture whose
  /// rows attend to each other is read as a whole: more, if it has more.
  size_t step(const std::vector<int32_t>& tokens, size_t start, size_t count) const;

  /// A text with the token of a picture's place for each row.
  std::vector<int32_t> with_places(std::vector<int32_t> tokens) const;

  /// Computes those rows among `tokens` that were not yet, and others of their tiles, and adds
  /// their number to `rows`. `interrupted` ends it between tiles.
  Status compute(const std::vector<int64_t>& tokens, const std::atomic<bool>* interrupted,
                 int64_t* rows);

  /// Runs the decoder over tokens and rows that are computed. Without segments, at positions
  /// start_pos ... of the cache in use: the result is the logits of the last one; else those that
  /// the segments ask for. Valid until the next call.
  Result<const float*> read(const std::vector<int64_t>& tokens, int64_t start_pos,
                            const std::vector<thimble_segment>& segments = {});

 private:
  Sight(OpenProgram& program, PictureSettings settings)
      : program_(program), settings_(std::move(settings)) {}
  Status read_width();
  std::shared_ptr<SeenPicture> find(int64_t row) const;
  Status compute_tile(SeenPicture* picture, size_t tile);
  /// Writes the rows of tokens; what is added behind layers is 0.
  Status embed(const int64_t* tokens, size_t count, float* rows);
  /// Of a picture, with the rows that it will have.
  size_t bytes(const SeenPicture& picture) const {
    return picture.tiles.bytes() + sizeof(float) * seen_width_ * picture.count;
  }
  /// The picture of the same tiles, or a new one. With mutex_.
  Result<std::shared_ptr<SeenPicture>> take(Tiles tiles);
  /// Forgets what nothing holds; returns the bytes of the rest. With mutex_.
  size_t forget();

  OpenProgram& program_;
  const PictureSettings settings_;
  size_t width_ = 0;           ///< of a row, with what is added behind layers
  size_t seen_width_ = 0;      ///< of a picture's row, which blank_ makes longer
  size_t token_width_ = 0;     ///< of a token's
  size_t vocab_size_ = 0;      ///< 0: the methods are not loaded
  std::vector<float> blank_;   ///< the row of settings_.blank, where a picture's is shorter
  std::vector<float> logits_;  ///< of segments
  mutable platform::Mutex mutex_;
  std::deque<std::shared_ptr<SeenPicture>> recent_;     ///< guarded by mutex_, as what follows
  std::map<int32_t, std::weak_ptr<SeenPicture>> seen_;  ///< by `first`
  int64_t next_ = -1;                                   ///< that of the next picture
};

}  // namespace thimble
