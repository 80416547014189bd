#include "program/option_uses.h"

#include <algorithm>
#include <string_view>

namespace thimble {
namespace {

using Names = std::vector<std::string_view>;

bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Those that choose what is done: which of them fit together is checked by themselves.
const Names kWorks = {"--chat", "--embed", "--audio", "--input", "--output", "--method"};
// What each kind of file takes.
const Names kOfAll = {"--threads", "--huge-pages", "--etdump",
                      "--quiet",   "--verify",     "--require-signature"};
const Names kOfSound = {"--prompt", "--prompt-file", "--seed",       "--temperature", "--language",
                        "--task",   "--format",      "--timestamps", "--no-fallback"};
const Names kOfEmbeddings = {"--prompt", "--prompt-file", "--prompt-name"};
const Names kOfTensors = {"--prompt", "--prompt-file", "--json"};  // a prompt is refused later
// And what is for a sound alone.
const Names kOfSoundAlone = {"--language", "--task", "--format", "--timestamps", "--no-fallback"};

struct Work {
  const char* name;
  const Names* takes;
};

Work work_of(const Options& options) {
  if (!options.audio.empty()) return {"--audio", &kOfSound};
  if (options.embed) return {"--embed", &kOfEmbeddings};
  if (options.takes_tensors()) return {"a program of tensors", &kOfTensors};
  return {nullptr, nullptr};
}

}  // namespace

Status check_uses(const Options& options, const std::vector<std::string>& given) {
  const Work work = work_of(options);
  for (const std::string& name : given) {
    if (options.audio.empty() && has(kOfSoundAlone, name)) {
      return Status::error(
          "--language, --task, --format, --timestamps and --no-fallback have no effect without "
          "--audio: add --audio FILE, or leave them out");
    }
    if (work.takes == nullptr || has(kWorks, name) || has(kOfAll, name)) continue;
    if (has(*work.takes, name)) continue;
    return Status::error(name + " has no effect with " + work.name + ": leave it out");
  }
  return {};
}

}  // namespace thimble
