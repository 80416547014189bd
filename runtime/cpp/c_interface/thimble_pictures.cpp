#include "c_interface/thimble_pictures.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_interface/chat_turn.h"
#include "c_interface/given_pictures.h"
#include "c_interface/shared.h"
#include "constraint/json.h"
#include "picture/tiles.h"

using thimble::check;
using thimble::first_error;
using thimble::generate_options;
using thimble::given;
using thimble::guarded;
using thimble::Pictures;
using thimble::quoted_json;
using thimble::report;
using thimble::Result;
using thimble::run_guarded;
using thimble::Status;

struct thimble_seen {
  Pictures pictures;
};

const char* thimble_picture_form(thimble_runner* runner) {
  return guarded<const char*>("", nullptr, 0, [&]() -> const char* {
    if (runner == nullptr) return "";
    const auto sight = runner->runner->sight();
    if (!sight.ok()) return "";
    const thimble::PictureSettings& settings = (*sight)->settings();
    runner->picture_form = "{\"place\": " + quoted_json(settings.place) +
                           ", \"before\": " + quoted_json(settings.before_question) +
                           ", \"before_text\": " + quoted_json(settings.before_text) +
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
    const Result<thimble::Picture> read = thimble::read_given(*picture, "the picture");
    if (!read.ok()) return read.status();
    const thimble::Tiles tiles(*read, *known);
    for (size_t tile = 0; tile < tiles.count(); ++tile) {
      const std::vector<float> numbers = tiles.numbers(tile);
      const std::vector<int32_t> sizes = tiles.shape(tile);
      const std::vector<int64_t> shape(sizes.begin(), sizes.end());
      if (on_tile(numbers.data(), shape.data(), shape.size(), context) == 0) break;
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
    const Result<Pictures> seen = thimble::see_given(*runner->runner, pictures, count);
    if (!seen.ok()) return seen.status();
    runner->runner->clear_stats();
    const std::string_view text(prompt, prompt_size);
    const auto tokens = runner->runner->encode_prompt(text, *seen);
    if (!tokens.ok()) return tokens.status();
    runner->runner->model().program().recorder().note("prompt", std::string(text));
    return runner->runner->generate(*tokens, generate_options(*options, *runner),
                                    thimble::to_callback(on_text, context));
  });
}

int thimble_chat_say_with_pictures(thimble_runner* runner, const char* message, size_t message_size,
                                   const thimble_picture* pictures, size_t count,
                                   const thimble_options* options, thimble_text_callback on_text,
                                   void* context, int64_t* dropped_turns, char* error,
                                   size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right = given({{"runner", runner}, {"pictures", pictures || count == 0}});
    if (!right.ok()) return right;
    Result<Pictures> seen = thimble::see_given(*runner->runner, pictures, count);
    if (!seen.ok()) return seen.status();
    return thimble::take_turn(runner, message, message_size, std::move(*seen), options, on_text,
                              context, dropped_turns);
  });
}

thimble_seen* thimble_see(thimble_runner* runner, const thimble_picture* pictures, size_t count,
                          char* error, size_t error_size) {
  return guarded<thimble_seen*>(nullptr, error, error_size, [&]() -> thimble_seen* {
    const Status right = given({{"runner", runner}, {"pictures", pictures || count == 0}});
    if (report(right, error, error_size) != 0) return nullptr;
    Result<Pictures> seen = thimble::see_given(*runner->runner, pictures, count);
    if (report(seen.status(), error, error_size) != 0) return nullptr;
    return new thimble_seen{std::move(*seen)};
  });
}

int64_t thimble_encode_seen(const thimble_runner* runner, const thimble_seen* seen,
                            const thimble_piece* pieces, int64_t count, int32_t* tokens,
                            int64_t capacity, char* error, size_t error_size) {
  return guarded<int64_t>(-1, error, error_size, [&]() -> int64_t {
    const Status right = given({{"runner", runner}, {"seen", seen}});
    const auto text = right.ok() ? thimble::read_pieces(pieces, count) : right;
    if (report(text.status(), error, error_size) != 0) return -1;
    const auto encoded = runner->runner->encode_pieces(*text, seen->pictures);
    if (report(encoded.status(), error, error_size) != 0) return -1;
    return thimble::write_tokens(*encoded, tokens, capacity);
  });
}

void thimble_seen_free(thimble_seen* seen) { delete seen; }
