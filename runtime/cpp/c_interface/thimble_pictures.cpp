#include "c_interface/thimble_pictures.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_interface/shared.h"
#include "constraint/json.h"
#include "picture/read_picture.h"
#include "picture/tiles.h"

using thimble::check;
using thimble::first_error;
using thimble::generate_options;
using thimble::given;
using thimble::guarded;
using thimble::Picture;
using thimble::quoted_json;
using thimble::Result;
using thimble::run_guarded;
using thimble::Status;

namespace {

Result<Picture> read(const thimble_picture& given, const std::string& name) {
  if (given.width == 0 && given.height == 0) {
    return thimble::read_picture(given.data, given.size, name);
  }
  if (given.width < 0 || given.height < 0) return Status::error(name + " has sizes below 0");
  const auto width = static_cast<uint64_t>(given.width),
             height = static_cast<uint64_t>(given.height);
  const Status fits = thimble::check_size(width, height, name);
  if (!fits.ok()) return fits;
  if (given.size != 3 * width * height) {
    return Status::error(name + " has " + std::to_string(given.size) + " bytes, but must have " +
                         std::to_string(3 * width * height) + ", three of each pixel");
  }
  Picture picture;
  picture.width = static_cast<size_t>(width);
  picture.height = static_cast<size_t>(height);
  picture.pixels.assign(given.data, given.data + given.size);
  return picture;
}

Result<std::vector<Picture>> read_all(const thimble_picture* pictures, size_t count) {
  std::vector<Picture> all;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = count == 1 ? "the picture" : "picture " + std::to_string(i + 1);
    const Status right = given({{name.c_str(), pictures[i].data != nullptr}});
    if (!right.ok()) return right;
    Result<Picture> picture = read(pictures[i], name);
    if (!picture.ok()) return picture.status();
    all.push_back(std::move(*picture));
  }
  return all;
}

}  // namespace

const char* thimble_picture_form(thimble_runner* runner) {
  return guarded<const char*>("", nullptr, 0, [&]() -> const char* {
    if (runner == nullptr) return "";
    const Result<thimble::Sight*> sight = runner->runner->sight();
    if (!sight.ok()) return "";
    const thimble::PictureSettings& settings = (*sight)->settings();
    runner->picture_form = "{\"place\": " + quoted_json(settings.place) +
                           ", \"before\": " + quoted_json(settings.before_question) +
                           ", \"after\": " + quoted_json(settings.after_question) + "}";
    return runner->picture_form.c_str();
  });
}

int thimble_picture_tiles(const uint8_t* settings, size_t settings_size,
                          const thimble_picture* picture, thimble_tile_callback on_tile,
                          void* context, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right =
        given({{"settings", settings}, {"picture", picture}, {"on_tile", on_tile}});
    if (!right.ok()) return right;
    const auto known = thimble::PictureSettings::load(settings, settings_size);
    if (!known.ok()) return known.status();
    const Result<std::vector<Picture>> pictures = read_all(picture, 1);
    if (!pictures.ok()) return pictures.status();
    const thimble::Tiles tiles(pictures->front(), *known);
    const auto side = static_cast<int64_t>(tiles.side());
    std::vector<float> numbers(3 * tiles.side() * tiles.side());
    for (size_t tile = 0; tile < tiles.count(); ++tile) {
      tiles.write(tile, numbers.data());
      if (on_tile(numbers.data(), side, side, context) == 0) break;
    }
    return {};
  });
}

int thimble_generate_with_pictures(thimble_runner* runner, const char* prompt, size_t prompt_size,
                                   const thimble_picture* pictures, size_t count,
                                   const thimble_options* options, thimble_text_callback on_text,
                                   void* context, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    if (options == nullptr) options = &thimble::kDefaultOptions;
    const Status right = first_error({given({{"runner", runner},
                                             {"prompt", prompt || prompt_size == 0},
                                             {"pictures", pictures || count == 0},
                                             {"on_text", on_text}}),
                                      check(*options)});
    if (!right.ok()) return right;
    const Result<std::vector<Picture>> read = read_all(pictures, count);
    if (!read.ok()) return read.status();
    runner->runner->clear_stats();
    const std::string_view text(prompt, prompt_size);
    const auto tokens = runner->runner->encode_prompt(text, *read, &runner->interrupted);
    if (!tokens.ok()) return tokens.status();
    if (runner->interrupted) return {};
    runner->runner->model().program().recorder().note("prompt", std::string(text));
    return runner->runner->generate(*tokens, generate_options(*options, *runner),
                                    thimble::to_callback(on_text, context));
  });
}
