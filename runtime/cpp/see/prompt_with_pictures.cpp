#include "see/prompt_with_pictures.h"

#include <algorithm>

namespace thimble {
namespace {

size_t count_places(std::string_view text, const std::string& place) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(place, at)) != std::string_view::npos; at += place.size()) {
    ++count;
  }
  return count;
}

std::string plural(size_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string counted(size_t places, const std::string& place, size_t pictures) {
  return plural(places, "place") + " " + place + ", but there " + (pictures == 1 ? "is " : "are ") +
         plural(pictures, "picture");
}

/// Writes what stands for pictures in the places of a text from the `next` picture on.
void write_pictures(const PictureSettings& settings, const Pictures& pictures, size_t* next,
                    std::string* text) {
  size_t at = 0;
  while (*next < pictures.size() && (at = text->find(settings.place, at)) != std::string::npos) {
    const std::string written = pictures[(*next)++]->tiles.text();
    text->replace(at, settings.place.size(), written);
    at += written.size();
  }
}

}  // namespace

Result<std::string> prompt_with_pictures(const PictureSettings& settings, std::string_view prompt,
                                         const Pictures& pictures) {
  const size_t places = count_places(prompt, settings.place);
  if (places != 0 && places != pictures.size()) {
    return Status::error("the prompt has " + counted(places, settings.place, pictures.size()) +
                         ": write one for each, or none");
  }
  std::string text;
  if (places == 0 && !pictures.empty()) {
    text = settings.before_question;
    for (size_t i = 0; i < pictures.size(); ++i) text += settings.question_place;
    text += std::string(prompt) + settings.after_question;
  } else {
    text = prompt;
  }
  size_t next = 0;
  write_pictures(settings, pictures, &next, &text);
  return text;
}

Status place_pictures(const PictureSettings& settings, const Pictures& pictures,
                      std::vector<int32_t>* tokens) {
  size_t rows = 0;
  for (const auto& picture : pictures) rows += picture->count;
  const auto places =
      static_cast<size_t>(std::count(tokens->begin(), tokens->end(), settings.token));
  if (places != rows) {
    return Status::error("the prompt has " + plural(places, "token") + " " + settings.row_place +
                         ", but its pictures have " + plural(rows, "row") +
                         ": leave such tokens out of it, or export the model again");
  }
  auto place = tokens->begin();
  for (const auto& picture : pictures) {
    for (size_t row = 0; row < picture->count; ++row) {
      place = std::find(place, tokens->end(), settings.token);
      *place = picture->first - static_cast<int32_t>(row);
    }
  }
  return {};
}

Result<std::vector<int32_t>> encode_with_pictures(const Sight& sight, const Model& model,
                                                  std::string_view prompt,
                                                  const Pictures& pictures) {
  const Result<std::string> text = prompt_with_pictures(sight.settings(), prompt, pictures);
  if (!text.ok()) return text.status();
  Result<std::vector<int32_t>> tokens = model.encode_prompt(*text);
  if (!tokens.ok()) return tokens;
  const Status placed = place_pictures(sight.settings(), pictures, &*tokens);
  if (!placed.ok()) return placed;
  return tokens;
}

Result<std::vector<int32_t>> encode_with_pictures(const Sight& sight, const Model& model,
                                                  std::vector<Piece> pieces,
                                                  const Pictures& pictures) {
  const PictureSettings& settings = sight.settings();
  size_t places = 0, next = 0;
  for (Piece& piece : pieces) {
    if (!piece.literal) continue;
    places += count_places(piece.text, settings.place);
    write_pictures(settings, pictures, &next, &piece.text);
  }
  if (places != pictures.size()) {
    return Status::error("the model's chat template writes " +
                         counted(places, settings.place, pictures.size()) +
                         ": pass pictures in the user's messages alone");
  }
  std::vector<int32_t> tokens = model.tokenizer().encode(pieces);
  const Status placed = place_pictures(settings, pictures, &tokens);
  if (!placed.ok()) return placed;
  return tokens;
}

}  // namespace thimble
