#include "program/option_uses.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace thimble {
namespace {

using Names = std::vector<std::string_view>;

struct Uses {
  // Those that choose what is done: which of them fit together is checked by themselves.
  Names works = {"--chat", "--embed", "--audio", "--input", "--output", "--method"};
  Names for_tensors = {"--input", "--output", "--method"};
  Names for_language = {"--prompt", "--prompt-file", "--chat", "--embed"};
  Names of_schemas = {"--schema-unsupported"};
  Names schemas = {"--json-schema", "--json-schema-file"};
  // What each kind of file takes.
  Names of_all = {"--threads", "--huge-pages", "--etdump",
                  "--quiet",   "--verify",     "--require-signature"};
  Names of_sound = {"--prompt", "--prompt-file", "--seed",       "--temperature", "--language",
                    "--task",   "--format",      "--timestamps", "--no-fallback", "--raw"};
  Names of_embeddings = {"--prompt", "--prompt-file", "--prompt-name"};
  Names of_tensors = {"--json"};
  // And what is for a sound alone.
  Names of_sound_alone = {"--language",   "--task",        "--format",
                          "--timestamps", "--no-fallback", "--raw"};
};

bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The first option given that is one of the names; "": none is.
std::string first_of(const Names& names, const std::vector<std::string>& given) {
  const auto found = std::find_if(given.begin(), given.end(),
                                  [&](const std::string& name) { return has(names, name); });
  return found == given.end() ? "" : *found;
}

struct Work {
  std::string name;
  const Names* takes;
};

/// \param tensors the option that chooses a program of tensors; "": none does.
Work work_of(const Options& options, const Uses& uses, const std::string& tensors) {
  if (!options.audio.empty()) return {"--audio", &uses.of_sound};
  if (options.embed) return {"--embed", &uses.of_embeddings};
  if (tensors.empty()) return {"", nullptr};
  return {tensors + ", which is for a program of tensors", &uses.of_tensors};
}

/// Whether options that go with the work go with each other, and none is missing.
Status check_together(const Options& options) {
  const std::string hint = ": thimble-runner --help lists the options";
  if (options.model.empty()) return Status::error("no model was given: pass a .pte file" + hint);
  if (options.embed && options.chat) {
    return Status::error("--embed and --chat contradict each other: pass one of them" + hint);
  }
  const bool hears = !options.audio.empty();
  if (hears && options.answer.sampler.temperature > 1) {
    return Status::error("--temperature must be 0 to 1 with --audio: pass a lower one");
  }
  for (const auto& [name, files] :
       {std::pair{"--audio", &options.audio}, std::pair{"--image", &options.images}}) {
    const auto inputs = std::count(files->begin(), files->end(), "-");
    if (inputs > 1) {
      return Status::error(std::string(name) +
                           " - is standard input, which is read once: pass it once");
    }
    if (inputs == 1 && options.prompt_is_input) {
      return Status::error(std::string(name) +
                           " - and -f - read standard input both: name a file for one of them");
    }
  }
  if (options.prompt_name && !options.embed) {
    return Status::error(
        "--prompt-name has no effect without --embed: add --embed, or leave it out");
  }
  if (!options.images.empty() && (!options.prompt || options.embed)) {
    return Status::error(
        "--image needs -p TEXT, which may be empty, and not --embed; a chat takes /image FILE");
  }
  if (hears && (options.chat || options.embed || options.takes_tensors())) {
    return Status::error(
        "--audio is for a model that hears, not with --chat, --embed or tensors: leave these out");
  }
  if (!options.prompt && !options.chat && !options.embed && !options.verify &&
      !options.takes_tensors() && !hears) {
    return Status::error(
        "no prompt was given: pass -p TEXT, which may be empty, -f FILE, --chat, or, to a program "
        "of tensors, --input and --output" +
        hint);
  }
  if (!options.system.empty() && !options.chat) {
    return Status::error(
        "--system has no effect without --chat: add --chat, or put the text into -p");
  }
  if (options.logprobs && options.json.empty()) {
    return Status::error("--logprobs has no effect without --json FILE, which they are written to");
  }
  return {};
}

}  // namespace

Status check_uses(const Options& options, const std::vector<std::string>& given) {
  const Uses uses;  // here: before main() begins, a lack of memory has no sentence
  const std::string tensors = first_of(uses.for_tensors, given);
  const std::string language = first_of(uses.for_language, given);
  if (!tensors.empty() && !language.empty()) {
    return Status::error(tensors + " is for a program of tensors, and " + language +
                         " for a model of language: leave one of them out");
  }
  const Work work = work_of(options, uses, tensors);
  for (const std::string& name : given) {
    if (options.audio.empty() && has(uses.of_sound_alone, name)) {
      return Status::error(
          "--language, --task, --format, --timestamps, --no-fallback and --raw have no effect "
          "without --audio: add --audio FILE, or leave them out");
    }
    if (work.takes == nullptr || has(uses.works, name) || has(uses.of_all, name)) continue;
    if (has(*work.takes, name)) continue;
    return Status::error(name + " has no effect with " + work.name + ": leave one of them out");
  }
  if (!first_of(uses.of_schemas, given).empty() && first_of(uses.schemas, given).empty()) {
    return Status::error(
        "--schema-unsupported has no effect without --json-schema: add a schema, or leave it out");
  }
  return check_together(options);
}

}  // namespace thimble
