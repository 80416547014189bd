/// Requests from several threads, with every option, while another thread steps: engine_test
/// MODEL.pte. Each request must end once, and those that are alike must get the same text.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "c_interface/thimble.h"

namespace {

constexpr int kThreads = 3, kRequests = 6;

struct Asked {
  std::string text;
  size_t tokens = 0;  ///< that were told of
  std::atomic<int> ends{0};
};

int take_text(const char* text, size_t size, void* context) {
  static_cast<Asked*>(context)->text.append(text, size);
  return 1;
}

void take_token(const thimble_token*, const thimble_token*, size_t, void* context) {
  ++static_cast<Asked*>(context)->tokens;
}

void take_end(const char*, const char*, void* context) { ++static_cast<Asked*>(context)->ends; }

std::string text_of(int thread, int request) {
  return request % 2 == 0 ? "Once upon a time" : "One day, " + std::to_string(thread);
}

/// Submits a request; its number, 0 if it was refused.
int64_t submit(thimble_runner* runner, thimble_engine* engine, const std::string& text, int kind,
               Asked* asked) {
  char error[256];
  int32_t tokens[64];
  const int64_t count =
      thimble_encode_prompt(runner, text.data(), text.size(), tokens, 64, error, sizeof(error));
  thimble_request request{};
  request.tokens = tokens;
  request.count = count;
  request.options = {12, 0.8f, 0, 0.95f, 0.0f, 7};
  const std::string choice = "[\"yes\", \"no\"]";
  if (kind == 3) {
    request.constraint_kind = THIMBLE_CHOICE;
    request.constraint = choice.data();
    request.constraint_size = choice.size();
  }
  thimble_settings* settings = thimble_settings_new();
  thimble_settings_number(settings, "frequency_penalty", 0.5, error, sizeof(error));
  thimble_settings_bias(settings, 5, -1.0, error, sizeof(error));
  thimble_settings_stop(settings, "zz", 2, error, sizeof(error));
  thimble_settings_tokens(settings, 2, take_token, asked, error, sizeof(error));
  const int64_t id = thimble_engine_submit_with(engine, &request, settings, nullptr, take_text,
                                                take_end, asked, error, sizeof(error));
  thimble_settings_free(settings);
  if (id == 0) std::fprintf(stderr, "%s\n", error);
  return id;
}

int check(const std::deque<Asked>& asked) {
  for (const Asked& one : asked) {
    if (one.ends != 1) return std::fprintf(stderr, "a request ended %d times\n", one.ends.load());
  }
  for (size_t i = 0; i < asked.size(); i += kRequests) {
    // The third of each thread is cancelled.
    if (asked[i].text.empty() || asked[i].tokens == 0 || asked[i].text != asked[0].text) {
      return std::fprintf(stderr, "two requests that are alike differ\n");
    }
  }
  return 0;
}

}  // namespace

int main(int, char** argv) {
  char error[1024];
  const thimble_load_options load{2, 0, 0};
  thimble_runner* runner = thimble_load(argv[1], &load, error, sizeof(error));
  const thimble_engine_options options{2, 64, 4};
  const bool ready =
      runner != nullptr && thimble_use_draft(runner, "ngram", error, sizeof(error)) == 0;
  thimble_engine* engine =
      ready ? thimble_engine_open(runner, &options, error, sizeof(error)) : nullptr;
  if (engine == nullptr) return std::fprintf(stderr, "%s\n", error), 1;

  std::deque<Asked> asked(kThreads * kRequests);
  std::atomic<int> asking{kThreads};
  std::atomic<bool> refused{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kRequests; ++i) {
        Asked& one = asked[static_cast<size_t>(thread * kRequests + i)];
        const int64_t id = submit(runner, engine, text_of(thread, i), i, &one);
        if (id == 0) refused = true;
        if (i == 2) thimble_engine_cancel(engine, id);
      }
      --asking;
    });
  }
  while (thimble_engine_step(engine) > 0 || asking > 0) {
  }
  for (std::thread& thread : threads) thread.join();
  while (thimble_engine_step(engine) > 0) {
  }
  const int failed = check(asked);
  thimble_engine_free(engine);
  thimble_free(runner);
  return failed != 0 || refused ? 1 : 0;
}
