#include "program/option_uses.h"

#include <algorithm>
#include <string_view>

namespace thimble {
namespace {

using Names = std::vector<std::string_view>;

struct Uses {
  // Those that choose what is done: which of them fit together is checked by themselves.
  Names works = {"--chat", "--embed", "--audio", "--input", "--output", "--method"};
  // What each kind of file takes.
  Names of_all = {"--threads", "--huge-pages", "--etdump",
                  "--quiet",   "--verify",     "--require-signature"};
  Names of_sound = {"--prompt", "--prompt-file", "--seed",       "--temperature", "--language",
                    "--task",   "--format",      "--timestamps", "--no-fallback", "--raw"};
  Names of_embeddings = {"--prompt", "--prompt-file", "--prompt-name"};
  Names of_tensors = {"--prompt", "--prompt-file", "--json"};  // a prompt is refused later
  // And what is for a sound alone.
  Names of_sound_alone = {"--language",   "--task",        "--format",
                          "--timestamps", "--no-fallback", "--raw"};
};

bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Work {
  const char* name;
  const Names* takes;
};

Work work_of(const Options& options, const Uses& uses) {
  if (!options.audio.empty()) return {"--audio", &uses.of_sound};
  if (options.embed) return {"--embed", &uses.of_embeddings};
  if (options.takes_tensors()) return {"a program of tensors", &uses.of_tensors};
  return {nullptr, nullptr};
}

}  // namespace

Status check_uses(const Options& options, const std::vector<std::string>& given) {
  const Uses uses;  // here: before main() begins, a lack of memory has no sentence
  const Work work = work_of(options, uses);
  for (const std::string& name : given) {
    if (options.audio.empty() && has(uses.of_sound_alone, name)) {
      return Status::error(
          "--language, --task, --format, --timestamps, --no-fallback and --raw have no effect "
          "without --audio: add --audio FILE, or leave them out");
    }
    if (work.takes == nullptr || has(uses.works, name) || has(uses.of_all, name)) continue;
    if (has(*work.takes, name)) continue;
    return Status::error(name + " has no effect with " + work.name + ": leave it out");
  }
  return {};
}

}  // namespace thimble
