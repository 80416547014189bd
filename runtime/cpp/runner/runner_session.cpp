// Sessions of a runner in files.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "model/session_file.h"
#include "runner/runner.h"

namespace thimble {
namespace {

/// The index of a picture among those that are saved, where it is added if it is not one.
uint32_t index_of(const std::shared_ptr<SeenPicture>& picture, Pictures* saved) {
  const auto found = std::find(saved->begin(), saved->end(), picture);
  const auto index = static_cast<uint32_t>(found - saved->begin());
  if (found == saved->end()) saved->push_back(picture);
  return index;
}

/// The pictures of a session, in its order; fails if they are not of this model.
Result<Pictures> to_pictures(const std::vector<SavedPicture>& saved, Sight& sight,
                             const std::string& path) {
  Pictures pictures;
  for (const SavedPicture& picture : saved) {
    const size_t side = sight.settings().side;
    const Size whole = picture.width == 0 ? Size{side, side} : Size{picture.width, picture.height};
    std::optional<Tiles> tiles =
        Tiles::of_pixels(picture.pixels, picture.rows, picture.columns, whole, sight.settings());
    if (!tiles) return damaged_session(path);
    const Status status =
        sight.see(std::move(*tiles), std::numeric_limits<size_t>::max(), &pictures);
    if (!status.ok()) return status;
  }
  return pictures;
}

/// Gives the rows among tokens the numbers that their pictures have now; false if one has none.
bool renumber(const std::vector<SavedPicture>& saved, const Pictures& pictures,
              std::vector<int32_t>* tokens) {
  return std::all_of(tokens->begin(), tokens->end(), [&](int32_t& token) {
    if (!is_row(token)) return true;
    for (size_t i = 0; i < saved.size(); ++i) {
      const int64_t row = int64_t{saved[i].first} - token;
      if (row < 0 || row >= static_cast<int64_t>(pictures[i]->count)) continue;
      token = pictures[i]->first - static_cast<int32_t>(row);
      return true;
    }
    return false;
  });
}

}  // namespace

Status Runner::save(const std::string& path) const {
  const Result<SessionHandle*> session = own_session("saved");
  if (!session.ok()) return session.status();
  Status allowed = model_->file().check_output(path);
  if (allowed.ok() && sight_.ok()) allowed = (*sight_)->load_methods();
  if (!allowed.ok()) return allowed;
  SavedSession saved;
  saved.fingerprint = model_->file().fingerprint();
  saved.tokens = cached_;
  saved.messages = conversations_.current();
  Pictures pictures = pictures_;
  for (const Message& message : saved.messages) {
    saved.message_pictures.emplace_back();
    for (const auto& picture : message.pictures) {
      saved.message_pictures.back().push_back(index_of(picture, &pictures));
    }
  }
  for (const auto& picture : pictures) {
    const Tiles& tiles = picture->tiles;
    saved.pictures.push_back({picture->first, static_cast<uint32_t>(tiles.rows()),
                              static_cast<uint32_t>(tiles.columns()),
                              static_cast<uint32_t>(tiles.whole().width),
                              static_cast<uint32_t>(tiles.whole().height), tiles.pixels()});
  }
  const Status status = (*session)->save(&saved.cache);
  return status.ok() ? write_session(path, saved) : status;
}

Status Runner::restore(const std::string& path) {
  const Result<SessionHandle*> session = own_session("restored");
  if (!session.ok()) return session.status();
  Result<SavedSession> saved = read_session(path, model_->file().fingerprint());
  if (!saved.ok()) return saved.status();
  if (sight_.ok()) {
    const Status loaded = (*sight_)->load_methods();
    if (!loaded.ok()) return loaded;
  }
  Result<Pictures> pictures = Pictures();
  if (!saved->pictures.empty()) {
    if (!sight_.ok()) return sight_.status();
    pictures = to_pictures(saved->pictures, **sight_, path);
    if (!pictures.ok()) return pictures.status();
  }
  if (!renumber(saved->pictures, *pictures, &saved->tokens)) return damaged_session(path);
  for (size_t i = 0; i < saved->messages.size(); ++i) {
    for (const uint32_t index : saved->message_pictures[i]) {
      saved->messages[i].pictures.push_back((*pictures)[index]);
    }
  }
  const Status status = (*session)->restore(saved->cache.data(), saved->cache.size());
  if (!status.ok()) {
    return Status::error("cannot restore the session " + path + ": " + status.message());
  }
  cached_ = std::move(saved->tokens);
  pictures_ = std::move(*pictures);
  if ((*session)->length() == static_cast<int64_t>(cached_.size())) {
    conversations_.restore(std::move(saved->messages));
    return {};
  }
  cached_.clear();
  (void)(*session)->truncate(0).ok();
  return Status::error("the session " + path +
                       " has different numbers of positions and tokens: delete it");
}

}  // namespace thimble
