#include "hear/transcription_settings.h"

#include "core/flatbuffer.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;

enum Field {
  kVersionField,
  kStart,
  kEnd,
  kTranscribe,
  kTranslate,
  kNoTimestamps,
  kLanguages,
  kSuppress,
  kBeginSuppress
};

std::vector<int32_t> read_tokens(const FlatbufferTable& table, Field field) {
  const auto stored = table.vector<int32_t>(field);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < stored.size(); ++i) tokens.push_back(stored[i]);
  return tokens;
}

}  // namespace

Result<TranscriptionSettings> TranscriptionSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THTR");
  if (!table.valid()) {
    return Status::error("the settings of transcription are damaged: export the model again");
  }
  const auto version = table.scalar<uint32_t>(kVersionField);
  if (version != kVersion) {
    return Status::error("the settings of transcription have version " + std::to_string(version) +
                         "; this program reads version " + std::to_string(kVersion) +
                         ": export the model again, or update the program");
  }
  TranscriptionSettings settings;
  settings.start = table.scalar<int32_t>(kStart);
  settings.end = table.scalar<int32_t>(kEnd);
  settings.transcribe = table.scalar<int32_t>(kTranscribe);
  settings.translate = table.scalar<int32_t>(kTranslate);
  settings.no_timestamps = table.scalar<int32_t>(kNoTimestamps);
  settings.suppress = read_tokens(table, kSuppress);
  settings.begin_suppress = read_tokens(table, kBeginSuppress);
  const FlatbufferTables languages = table.tables(kLanguages);
  for (size_t i = 0; i < languages.size(); ++i) {
    settings.languages.push_back(
        {std::string(languages[i].string(0)), languages[i].scalar<int32_t>(1)});
  }
  return settings;
}

Result<int32_t> TranscriptionSettings::language(const std::string& code) const {
  std::string known;
  for (const Language& language : languages) {
    if (language.code == code) return language.token;
    known += (known.empty() ? "" : ", ") + language.code;
  }
  return Status::error("the model does not know the language '" + code + "': it knows " +
                       (known.empty() ? "en" : known));
}

}  // namespace thimble
