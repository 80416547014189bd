#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/model.h"
#include "picture/picture_settings.h"
#include "see/sight.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// The text of a prompt, with what stands for each picture. A prompt that has a place for each
/// keeps its own text. One without places is a question about the pictures, if there are any: the
/// model's template stands around it, if the file has one. Fails if it has places, but not as many.
Result<std::string> prompt_with_pictures(const PictureSettings& settings, std::string_view prompt,
                                         const Pictures& pictures);

/// Puts the rows of pictures in the places of such a text's tokens. Fails if there are not as many
/// places as rows.
Status place_pictures(const PictureSettings& settings, const Pictures& pictures,
                      std::vector<int32_t>* tokens);

/// The tokens of a prompt with pictures, as Model::encode_prompt() makes them, and the rows of the
/// pictures in their places.
Result<std::vector<int32_t>> encode_with_pictures(const Sight& sight, const Model& model,
                                                  std::string_view prompt,
                                                  const Pictures& pictures);

/// The tokens of a conversation whose literal pieces have a place for each picture, and the rows of
/// the pictures in these. Text of messages that looks like a place is text. Fails if there are not
/// as many places.
Result<std::vector<int32_t>> encode_with_pictures(const Sight& sight, const Model& model,
                                                  std::vector<Piece> pieces,
                                                  const Pictures& pictures);

}  // namespace thimble
