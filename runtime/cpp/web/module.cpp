/// What JavaScript needs beside thimble.h: memory, and callbacks that it implements.

#include <cstddef>
#include <cstdlib>

#include "c_interface/thimble.h"

extern "C" {

/// Implemented in JavaScript: receives a piece of the answer; 0 ends the answer.
[[clang::import_module("thimble"), clang::import_name("on_text")]] int thimble_web_on_text(
    const char* text, size_t size);

/// Implemented in JavaScript: receives a token of the answer and the `count` most likely.
[[clang::import_module("thimble"), clang::import_name("on_token")]] void thimble_web_on_token(
    const thimble_token* chosen, const thimble_token* top, size_t count);

/// Memory aligned to 64 bytes; null if there is none.
THIMBLE_API void* thimble_web_allocate(size_t bytes) {
  return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
}

THIMBLE_API void thimble_web_release(void* memory) { std::free(memory); }

/// The callback for thimble_generate() and thimble_chat_say().
THIMBLE_API thimble_text_callback thimble_web_callback(void) {
  return [](const char* text, size_t size, void*) { return thimble_web_on_text(text, size); };
}

/// The callback for thimble_settings_tokens().
THIMBLE_API thimble_token_callback thimble_web_token_callback(void) {
  return [](const thimble_token* chosen, const thimble_token* top, size_t count, void*) {
    thimble_web_on_token(chosen, top, count);
  };
}
}
