#include "hear/transcription_settings.h"

#include "core/flatbuffer.h"
#include "core/settings_version.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1, kBlankVersion = 2;

enum Field {
  kVersionField,
  kStart,
  kEnd,
  kTranscribe,
  kTranslate,
  kNoTimestamps,
  kLanguages,
  kSuppress,
  kBeginSuppress,
  kAlignmentHeads,
  kDecoderHeads,
  kBlank
};

}  // namespace

Result<TranscriptionSettings> TranscriptionSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THTR");
  if (!table.valid()) {
    return Status::error("the settings of transcription are damaged: export the model again");
  }
  const auto given = table.scalar<uint32_t>(kVersionField);
  const bool has_blank = given == kBlankVersion;
  const Status version =
      check_settings_version("transcription", given, has_blank ? kBlankVersion : kVersion);
  if (!version.ok()) return version;
  TranscriptionSettings settings;
  settings.start = table.scalar<int32_t>(kStart);
  settings.end = table.scalar<int32_t>(kEnd);
  settings.transcribe = table.scalar<int32_t>(kTranscribe);
  settings.translate = table.scalar<int32_t>(kTranslate);
  settings.no_timestamps = table.scalar<int32_t>(kNoTimestamps);
  if (has_blank) settings.blank = table.scalar<int32_t>(kBlank);
  settings.suppress = table.vector<int32_t>(kSuppress).copy();
  settings.begin_suppress = table.vector<int32_t>(kBeginSuppress).copy();
  const std::vector<int32_t> heads = table.vector<int32_t>(kAlignmentHeads).copy();
  for (size_t i = 1; i < heads.size(); i += 2) {
    settings.alignment_heads.push_back(
        {static_cast<size_t>(heads[i - 1]), static_cast<size_t>(heads[i])});
  }
  settings.decoder_heads = table.scalar<uint32_t>(kDecoderHeads);
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
  if (languages.empty() && !english_alone()) {
    return Status::error("the model knows one language, which its file does not name: leave '" +
                         code + "' out");
  }
  return Status::error("the model does not know the language '" + code + "': it knows " +
                       (known.empty() ? "en" : known));
}

}  // namespace thimble
