#include "c_interface/thimble_embedder.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_interface/load_options.h"
#include "c_interface/shared.h"
#include "embed/embedder.h"

using thimble::check;
using thimble::given;
using thimble::guarded;
using thimble::report;
using thimble::run_guarded;
using thimble::Status;

struct thimble_embedder {
  std::unique_ptr<thimble::Embedder> embedder;
};

thimble_embedder* thimble_embedder_load(const char* path, const thimble_load_options* options,
                                        char* error, size_t error_size) {
  return thimble_embedder_load_signed(path, nullptr, options, error, error_size);
}

thimble_embedder* thimble_embedder_load_signed(const char* path, const char* public_key,
                                               const thimble_load_options* options, char* error,
                                               size_t error_size) {
  return guarded(
      static_cast<thimble_embedder*>(nullptr), error, error_size, [&]() -> thimble_embedder* {
        const auto load = thimble::to_load(options, public_key);
        const Status right =
            thimble::first_error({given({{"path", path != nullptr}}), load.status()});
        if (report(right, error, error_size) != 0) return nullptr;
        auto loaded = thimble::Embedder::load(thimble::PteFile::open(path, load->signer), *load);
        if (report(loaded.status(), error, error_size) != 0) return nullptr;
        return new thimble_embedder{std::move(*loaded)};
      });
}

int64_t thimble_embedder_width(const thimble_embedder* embedder) {
  return embedder == nullptr ? 0 : static_cast<int64_t>(embedder->embedder->width());
}

int64_t thimble_embedder_max_seq_len(const thimble_embedder* embedder) {
  if (embedder == nullptr) return 0;
  return static_cast<int64_t>(embedder->embedder->settings().max_seq_len);
}

int64_t thimble_embedder_prompts(const thimble_embedder* embedder) {
  if (embedder == nullptr) return 0;
  return static_cast<int64_t>(embedder->embedder->settings().prompts.size());
}

const char* thimble_embedder_prompt_at(const thimble_embedder* embedder, int64_t index) {
  if (index < 0 || index >= thimble_embedder_prompts(embedder)) return nullptr;
  return embedder->embedder->settings().prompts[static_cast<size_t>(index)].name.c_str();
}

int thimble_embedder_run(thimble_embedder* embedder, const thimble_text* texts, int64_t count,
                         const char* prompt, float* rows, thimble_embedding_counts* counts,
                         char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    Status status = given({{"embedder", embedder != nullptr},
                           {"texts", texts != nullptr || count == 0},
                           {"rows", rows != nullptr || count == 0}});
    if (status.ok()) status = check<int64_t>("count", count, 0, INT32_MAX);
    if (!status.ok()) return status;
    std::vector<std::string_view> views;
    for (int64_t i = 0; i < count; ++i) {
      status = given({{"a text", texts[i].text != nullptr || texts[i].size == 0}});
      if (!status.ok()) return status;
      views.emplace_back(texts[i].size == 0 ? "" : texts[i].text, texts[i].size);
    }
    const auto name =
        prompt == nullptr ? std::optional<std::string>() : std::optional<std::string>(prompt);
    thimble::EmbeddingCounts counted;
    status = embedder->embedder->embed(views, name, rows, &counted);
    if (status.ok() && counts != nullptr) *counts = {counted.tokens, counted.cut};
    return status;
  });
}

void thimble_embedder_free(thimble_embedder* embedder) { delete embedder; }
