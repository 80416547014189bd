#include "program/options.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/answer_numbers.h"
#include "constraint/json.h"
#include "program/option_uses.h"
#include "program/option_values.h"
#include "program/text_file.h"
#include "sound/pcm.h"

namespace thimble {
namespace {

/// One option: its names, and what its value (or its presence, for a flag) does.
struct Option {
  std::string name;
  std::string_view short_name;
  bool takes_value;
  std::function<Status(const std::string& name, const std::string& text)> read;
  std::vector<std::string_view> may_follow = {};  ///< values of one that needs none
};

Option flag(const std::string& name, bool* value) {
  return {name, "", false, [value](const std::string&, const std::string&) {
            *value = true;
            return Status();
          }};
}

Option text(const std::string& name, std::string* value) {
  return {name, "", true, [name, value](const std::string&, const std::string& text) {
            if (text.empty()) return Status::error(std::string(name) + " needs a value");
            *value = text;
            return Status();
          }};
}

/// An option whose value is text, which must be UTF-8.
Option of_utf8(Option option) {
  option.read = [read = std::move(option.read)](const std::string& name, const std::string& text) {
    Status status = check_utf8(name, text);
    return status.ok() ? read(name, text) : status;
  };
  return option;
}

/// A file that is written, beside standard output, which has the answer.
Option output_file(Option option) {
  option.read = [read = std::move(option.read)](const std::string& name, const std::string& text) {
    if (text != "-" && text.substr(text.find('=') + 1) != "-") return read(name, text);
    return Status::error(name + " is -, which is not a file: name a file, such as /dev/stderr");
  };
  return option;
}

/// A text that is given once: export takes several adapters, but a model runs with one.
Option one_text(const std::string& name, std::string* value) {
  Option once = text(name, value);
  once.read = [set = once.read, value](const std::string& name, const std::string& text) {
    if (value->empty()) return set(name, text);
    return Status::error(name + " is given as " + *value + " and as " + text +
                         ", but a model runs with one: give it once");
  };
  return once;
}

Option maybe_empty(const std::string& name, std::string_view short_name,
                   std::optional<std::string>* value) {
  return {name, short_name, true,
          [value](const std::string&, const std::string& text) { return *value = text, Status(); }};
}

template <typename T>
Option integer(const std::string& name, std::string_view short_name, uint64_t low, uint64_t high,
               T* value) {
  return {name, short_name, true,
          [low, high, value](const std::string& name, const std::string& text) {
            uint64_t number = 0;
            Status status = read_integer(name, text, low, high, &number);
            if (status.ok()) *value = static_cast<T>(number);
            return status;
          }};
}

/// A numeric option of the answer, read and checked as its row of the table says.
Option number(const AnswerNumber& number, Options* options) {
  const bool is_count = number.member == AnswerNumber::Member(&GenerateOptions::max_new_tokens);
  std::string name = is_count ? "--tokens" : "--" + std::string(number.name);
  std::replace(name.begin(), name.end(), '_', '-');
  const std::string_view type = number.type(), short_name = is_count ? "-n" : "";
  const AnswerNumber* row = &number;  // in the table: a copy in the lambda has another address
  const auto read = [=](const std::string& name, const std::string& text) {
    double value = 1;
    uint64_t whole = 0;
    Status status;
    if (type == "number") status = read_real(name, text, number.low, number.high, &value);
    if (type == "integer") {
      // No tokens are what the table calls no limit.
      const auto low = is_count ? 1 : static_cast<uint64_t>(number.low);
      status = read_integer(name, text, low, static_cast<uint64_t>(number.high), &whole);
      value = static_cast<double>(whole);
    }
    if (status.ok()) number.set(&options->answer, options->numbers[row] = value);
    if (number.member == AnswerNumber::Member(&OutputOptions::top_logprobs)) {
      options->logprobs = true;
    }
    return status;
  };
  return {name, short_name, type != "boolean", read};
}

/// One of some words; `set` gets its index.
Option word(const std::string& name, const std::vector<std::string_view>& words,
            const std::function<void(size_t)>& set) {
  return {name, "", true, [words, set](const std::string& name, const std::string& text) {
            size_t index = 0;
            Status status = read_word(name, text, words, &index);
            if (status.ok()) set(index);
            return status;
          }};
}

/// A flag that one of some words may follow.
Option maybe_word(const std::string& name, const std::vector<std::string_view>& words, bool* value,
                  const std::function<void(size_t)>& set) {
  Option option = word(name, words, set);
  option.takes_value = false;
  option.may_follow = words;
  option.read = [read = option.read, value](const std::string& name, const std::string& text) {
    *value = true;
    return text.empty() ? Status() : read(name, text);
  };
  return option;
}

Option cache_type(const std::string& name, int32_t* value) {
  return word(name, {"default", "float16", "float32", "int8", "int4", "int8-int4"},
              [value](size_t index) {
                constexpr int32_t kTypes[] = {THIMBLE_CACHE_DEFAULT, THIMBLE_CACHE_FLOAT16,
                                              THIMBLE_CACHE_FLOAT32, THIMBLE_CACHE_INT8,
                                              THIMBLE_CACHE_INT4,    THIMBLE_CACHE_INT8_INT4};
                *value = kTypes[index];
              });
}

Status set_constraint(const std::string& name, ConstraintText constraint, Options* options) {
  if (options->constraint.kind != ConstraintText::Kind::kNone) {
    return Status::error(name + " is a second constraint: an answer can have one");
  }
  options->constraint = std::move(constraint);
  return {};
}

Option constraint_text(const std::string& name, ConstraintText::Kind kind, Options* options) {
  return {name, "", true, [=](const std::string& name, const std::string& text) {
            return set_constraint(name, {kind, text}, options);
          }};
}

Option constraint_file(const std::string& name, ConstraintText::Kind kind, Options* options) {
  return {name, "", true, [=](const std::string& name, const std::string& path) {
            Result<std::string> text = read_text_file(path);
            if (!text.ok()) return Status::error(name + ": " + text.message());
            return set_constraint(name, {kind, std::move(*text)}, options);
          }};
}

/// The prompt from a file or, for "-", from standard input; a line's end is the file's.
Option prompt_file(const std::string& name, std::string_view short_name, Options* options) {
  return {name, short_name, true, [options](const std::string& name, const std::string& path) {
            const bool is_input = path == "-";
            Result<std::string> text = is_input ? read_input_text() : read_text_file(path);
            Status status = text.status();
            if (status.ok()) status = check_utf8(is_input ? "standard input" : path, *text);
            if (!status.ok() && is_input) return status;
            if (!status.ok()) return Status::error(name + ": " + status.message());
            for (const char end : {'\n', '\r'}) {
              if (!text->empty() && text->back() == end) text->pop_back();
            }
            options->prompt = std::move(*text);
            options->prompt_is_input = is_input;
            return Status();
          }};
}

/// A prompt, of which there is one.
Option one_prompt(Option option, const Options* options) {
  option.read = [read = std::move(option.read), options](const std::string& name,
                                                         const std::string& text) {
    if (!options->prompt) return read(name, text);
    return Status::error(name + " is a second prompt: pass one, with -p or -f");
  };
  return option;
}

/// Each use adds a string to the array that the constraint's text is.
Option choice(const std::string& name, Options* options) {
  return {name, "", true, [options](const std::string& name, const std::string& text) {
            ConstraintText& constraint = options->constraint;
            if (constraint.kind != ConstraintText::Kind::kChoice) {
              return set_constraint(
                  name, {ConstraintText::Kind::kChoice, "[" + quoted_json(text) + "]"}, options);
            }
            constraint.text.back() = ',';
            constraint.text += quoted_json(text) + "]";
            return Status();
          }};
}

/// Each use adds one.
Option each(const std::string& name, std::vector<std::string>* values) {
  return {name, "", true, [values](const std::string& name, const std::string& text) {
            if (text.empty()) return Status::error(name + " needs a value");
            values->push_back(text);
            return Status();
          }};
}

/// Each use adds a file, as FILE or NAME=FILE: a name has neither a slash nor a dot.
Option tensor_file(const std::string& name, std::vector<NamedFile>* files) {
  return {name, "", true, [files](const std::string& name, const std::string& text) {
            const size_t equals = text.find('=');
            const bool named = equals != std::string::npos && equals < text.find_first_of("/.");
            NamedFile file{named ? text.substr(0, equals) : "",
                           named ? text.substr(equals + 1) : text};
            if (file.path.empty() || (named && file.name.empty())) {
              return Status::error(name + " is '" + text + "', but must be FILE or NAME=FILE");
            }
            files->push_back(std::move(file));
            return Status();
          }};
}

/// Each use adds one, in place of an earlier one of the same token.
Option bias(const std::string& name, LogitChangeOptions* changes) {
  return {name, "", true, [changes](const std::string& name, const std::string& text) {
            const size_t equals = text.find('=');
            if (equals == std::string::npos) {
              return Status::error(name + " is '" + text + "', but must be ID=VALUE");
            }
            uint64_t token = 0;
            double value = 0;
            Status status = read_integer(name, text.substr(0, equals), 0,
                                         std::numeric_limits<int32_t>::max(), &token);
            if (status.ok()) {
              status = read_real(name, text.substr(equals + 1), -kMostBias, kMostBias, &value);
            }
            if (status.ok()) changes->bias[static_cast<int32_t>(token)] = static_cast<float>(value);
            return status;
          }};
}

std::vector<Option> all_options(Options* options) {
  using Kind = ConstraintText::Kind;
  GenerateOptions& answer = options->answer;
  std::vector<Option> all = {
      one_prompt(of_utf8(maybe_empty("--prompt", "-p", &options->prompt)), options),
      one_prompt(prompt_file("--prompt-file", "-f", options), options),
      bias("--logit-bias", &answer.sampler.changes),
      of_utf8(each("--stop", &answer.output.stop)),
      integer("--seed", "", 0, std::numeric_limits<uint64_t>::max(), &options->seed),
      integer("--threads", "", 1, kMaxThreads, &options->load.threads),
      cache_type("--kv-cache", &options->load.cache_type),
      flag("--huge-pages", &options->load.huge_pages),
      text("--require-signature", &options->load.signer),
      constraint_text("--json-schema", Kind::kJsonSchema, options),
      constraint_file("--json-schema-file", Kind::kJsonSchema, options),
      {"--json-object", "", false,
       [options](const std::string& name, const std::string&) {
         return set_constraint(name, {Kind::kJsonSchema, "{\"type\": \"object\"}"}, options);
       }},
      constraint_text("--regex", Kind::kRegex, options),
      of_utf8(choice("--choice", options)),
      constraint_text("--grammar", Kind::kGrammar, options),
      constraint_file("--grammar-file", Kind::kGrammar, options),
      word("--schema-unsupported", {"refuse", "relax"},
           [options](size_t index) { options->relax = index == 1; }),
      one_text("--adapter", &options->adapter),
      text("--draft", &options->draft),
      tensor_file("--input", &options->inputs),
      output_file(tensor_file("--output", &options->outputs)),
      text("--method", &options->method),
      output_file(text("--session", &options->session)),
      output_file(text("--etdump", &options->etdump)),
      output_file(text("--json", &options->json)),
      of_utf8(text("--system", &options->system)),
      flag("--chat", &options->chat),
      flag("--embed", &options->embed),
      of_utf8(maybe_empty("--prompt-name", "", &options->prompt_name)),
      each("--audio", &options->audio),
      integer("--raw", "", 1, kMostRate, &options->raw_rate),
      each("--image", &options->images),
      text("--language", &options->language),
      text("--task", &options->task),
      text("--format", &options->format),
      maybe_word("--timestamps", {"segment", "word"}, &options->timestamps,
                 [options](size_t index) { options->words = index == 1; }),
      flag("--no-fallback", &options->no_fallback),
      flag("--quiet", &options->quiet),
      flag("--verify", &options->verify),
      flag("--version", &options->version),
      {"--help", "-h", false,
       [options](const std::string&, const std::string&) {
         options->help = true;
         return Status();
       }},
  };
  for (const AnswerNumber& one : answer_numbers()) all.push_back(number(one, options));
  return all;
}

const Option* find(const std::vector<Option>& options, std::string_view name) {
  for (const Option& option : options) {
    if (name == option.name || (!name.empty() && name == option.short_name)) return &option;
  }
  return nullptr;
}

/// Whether each of these arguments may be a file: none follows an option of words as another word.
Status check_words(const std::vector<Option>& known, const char* const* argv,
                   std::initializer_list<int> files) {
  for (const int at : files) {
    const Option* before = find(known, argv[at - 1]);
    const bool is_word = std::string_view(argv[at]).find_first_of("/.") == std::string::npos;
    if (before == nullptr || before->may_follow.empty() || !is_word) continue;
    Status status = before->read(before->name, argv[at]);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Result<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  const std::vector<Option> known = all_options(&options);
  std::vector<std::string> given;
  bool options_end = false;
  int model_at = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!options_end && argument == "--") {
      options_end = true;
      continue;
    }
    if (options_end || argument.size() < 2 || argument[0] != '-') {
      if (!options.model.empty()) {
        Status status = check_words(known, argv, {model_at, i});
        if (!status.ok()) return status;
        return Status::error("'" + argument +
                             "' belongs to no option, and the model is named already: "
                             "pass a prompt with -p, in quotes if it has spaces");
      }
      options.model = argument;
      model_at = i;
      continue;
    }
    const size_t equals = argument.rfind("--", 0) == 0 ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, equals);
    const Option* option = find(known, name);
    if (option == nullptr) {
      return Status::error("'" + name +
                           "' is not an option: thimble-runner --help lists the options");
    }
    std::string value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    const std::vector<std::string_view>& may_follow = option->may_follow;
    if (!option->takes_value && equals != std::string::npos && may_follow.empty()) {
      return Status::error(name + " takes no value, but was given '" + value + "'");
    }
    if (option->takes_value && equals == std::string::npos) {
      if (++i == argc)
        return Status::error(name + " needs a value: thimble-runner --help lists the options");
      value = argv[i];
    }
    if (equals == std::string::npos && i + 1 < argc &&
        std::find(may_follow.begin(), may_follow.end(), argv[i + 1]) != may_follow.end()) {
      value = argv[++i];
    }
    Status status = option->read(name, value);
    if (!status.ok()) return status;
    given.push_back(option->name);
  }
  options.constraint.relax = options.relax;
  options.load.record = !options.etdump.empty();
  if (options.help || options.version) return options;
  Status status = check_uses(options, given);
  if (!status.ok()) return status;
  return options;
}

}  // namespace thimble
