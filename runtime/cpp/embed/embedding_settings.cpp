#include "embed/embedding_settings.h"

#include "core/flatbuffer.h"
#include "core/settings_version.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;

enum Field { kVersionField, kMaxSeqLen, kBefore, kAfter, kPrompts, kDefaultPrompt };

Status damaged(const std::string& what) {
  return Status::error("the settings of embeddings are damaged (" + what +
                       "): export the model again");
}

}  // namespace

Result<EmbeddingSettings> EmbeddingSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THEM");
  if (!table.valid()) return damaged("they are something else");
  const Status version =
      check_settings_version("embeddings", table.scalar<uint32_t>(kVersionField), kVersion);
  if (!version.ok()) return version;
  EmbeddingSettings settings;
  settings.max_seq_len = table.scalar<uint32_t>(kMaxSeqLen);
  settings.before = table.vector<int32_t>(kBefore).copy();
  settings.after = table.vector<int32_t>(kAfter).copy();
  settings.default_prompt = std::string(table.string(kDefaultPrompt));
  const FlatbufferTables prompts = table.tables(kPrompts);
  for (size_t i = 0; i < prompts.size(); ++i) {
    settings.prompts.push_back(
        {std::string(prompts[i].string(0)), std::string(prompts[i].string(1))});
  }
  if (settings.max_seq_len <= settings.before.size() + settings.after.size()) {
    return damaged("a text has no tokens of its own");
  }
  if (!settings.prompt(std::nullopt).ok()) return damaged("there is no default prompt");
  return settings;
}

Result<std::string> EmbeddingSettings::prompt(const std::optional<std::string>& name) const {
  const std::string prompt_name = name ? *name : default_prompt;
  if (prompt_name.empty()) return std::string();
  std::string known;
  for (const Prompt& prompt : prompts) {
    if (prompt.name == prompt_name) return prompt.text;
    known += (known.empty() ? "" : ", ") + prompt.name;
  }
  return Status::error("the model has no prompt '" + prompt_name +
                       "': " + (known.empty() ? "it has none" : "it has " + known));
}

}  // namespace thimble
