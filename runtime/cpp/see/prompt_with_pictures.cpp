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

}  // namespace

Result<std::string> prompt_with_pictures(const PictureSettings& settings, std::string_view prompt,
                                         const std::vector<SeenPicture>& pictures) {
  const size_t places = count_places(prompt, settings.place);
  if (places != 0 && places != pictures.size()) {
    return Status::error("the prompt has " + plural(places, "place") + " " + settings.place +
                         ", but there " + (pictures.size() == 1 ? "is " : "are ") +
                         plural(pictures.size(), "picture") + ": write one for each, or none");
  }
  std::string text;
  if (places == 0) {
    text = settings.before_question;
    for (size_t i = 0; i < pictures.size(); ++i) text += settings.place;
    text += std::string(prompt) + settings.after_question;
  } else {
    text = prompt;
  }
  size_t at = 0;
  for (const SeenPicture& picture : pictures) {
    at = text.find(settings.place, at);
    const std::string written = settings.text(picture.rows, picture.columns);
    text.replace(at, settings.place.size(), written);
    at += written.size();
  }
  return text;
}

Status place_pictures(const PictureSettings& settings, const std::vector<SeenPicture>& pictures,
                      std::vector<int32_t>* tokens) {
  size_t rows = 0;
  for (const SeenPicture& picture : pictures) rows += picture.count;
  const auto places =
      static_cast<size_t>(std::count(tokens->begin(), tokens->end(), settings.token));
  if (places != rows) {
    return Status::error("the prompt has " + plural(places, "token") + " " + settings.place +
                         ", but its pictures have " + plural(rows, "row") +
                         ": leave such tokens out of it, or export the model again");
  }
  auto place = tokens->begin();
  for (const SeenPicture& picture : pictures) {
    for (size_t row = 0; row < picture.count; ++row) {
      place = std::find(place, tokens->end(), settings.token);
      *place = picture.first - static_cast<int32_t>(row);
    }
  }
  return {};
}

Result<std::vector<int32_t>> encode_with_pictures(Sight& sight, const Model& model,
                                                  std::string_view prompt,
                                                  const std::vector<Picture>& pictures,
                                                  const std::atomic<bool>* interrupted) {
  const auto most = static_cast<size_t>(model.program().max_context_len());
  const Result<std::vector<SeenPicture>> seen = sight.see(pictures, most, interrupted);
  if (!seen.ok()) return seen.status();
  if (seen->size() < pictures.size()) return std::vector<int32_t>();
  const Result<std::string> text = prompt_with_pictures(sight.settings(), prompt, *seen);
  if (!text.ok()) return text.status();
  Result<std::vector<int32_t>> tokens = model.encode_prompt(*text);
  if (!tokens.ok()) return tokens;
  const Status placed = place_pictures(sight.settings(), *seen, &*tokens);
  if (!placed.ok()) return placed;
  return tokens;
}

}  // namespace thimble
