#include "answer/answer_numbers.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <type_traits>

namespace thimble {
namespace {

// The part of the options that a member is of.
GenerateOptions& part(GenerateOptions& all, const GenerateOptions*) { return all; }
SamplerOptions& part(GenerateOptions& all, const SamplerOptions*) { return all.sampler; }
LogitChangeOptions& part(GenerateOptions& all, const LogitChangeOptions*) {
  return all.sampler.changes;
}
OutputOptions& part(GenerateOptions& all, const OutputOptions*) { return all.output; }

DryOptions& part(GenerateOptions& all, const DryOptions*) { return all.sampler.changes.dry; }
MirostatOptions& part(GenerateOptions& all, const MirostatOptions*) { return all.sampler.mirostat; }

template <typename T, typename Part>
T& find(GenerateOptions& all, T Part::* member) {
  return part(all, static_cast<const Part*>(nullptr)).*member;
}

/// Of a float as few digits as tell it from others: 0.1, and not 0.100000001490116.
std::string to_json(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", number);
  if (std::strtof(text, nullptr) == number) return text;
  std::snprintf(text, sizeof(text), "%.15g", number);
  return text;
}

bool is_whole(double value) { return std::trunc(value) == value; }  // infinity is, NaN is not

Status out_of_range(const AnswerNumber& number, const std::string& value, const char* kind) {
  return Status::error(std::string(number.name) + " is " + value + ", but must be " + kind +
                       "from " + shown(number.low) + " to " + shown(number.high));
}

}  // namespace

std::string shown(double value) {
  if (is_whole(value) && std::abs(value) < 0x1p63) {
    return std::to_string(static_cast<int64_t>(value));
  }
  std::ostringstream text;
  text << value;
  return text.str();
}

const std::vector<AnswerNumber>& answer_numbers() {
  static const std::vector<AnswerNumber> numbers = {
      {"max_new_tokens", 0, INT32_MAX, &GenerateOptions::max_new_tokens,
       "  -n, --tokens COUNT   the most tokens to generate (default: until the model ends its\n"
       "                       text or the context is full)\n"},
      {"temperature", 0, 100, &SamplerOptions::temperature,
       "  --temperature T      0 to 100; 0: always the most likely token (default 0)\n"},
      {"top_k", 0, INT32_MAX, &SamplerOptions::top_k,
       "  --top-k K            sample from the K most likely tokens; 0: all (default 0)\n"},
      {"top_p", 0, 1, &SamplerOptions::top_p,
       "  --top-p P            0 to 1: nucleus sampling, from the smallest set of tokens whose\n"
       "                       probabilities add up to P (default 1)\n"},
      {"min_p", 0, 1, &SamplerOptions::min_p,
       "  --min-p P            0 to 1: sample from tokens that have at least P times the\n"
       "                       probability of the most likely one (default 0)\n"},
      {"repetition_penalty", 0.01, 100, &LogitChangeOptions::repetition_penalty,
       "  --repetition-penalty P\n"
       "                       0.01 to 100: divides the logits of tokens that the text has, or\n"
       "                       multiplies those below 0; 1: none (default 1)\n"},
      {"presence_penalty", -2, 2, &LogitChangeOptions::presence_penalty,
       "  --presence-penalty P, --frequency-penalty P\n"
       "                       -2 to 2: taken from the logits of tokens that the answer has, "
       "once,\n"
       "                       or as often as it has them (default 0)\n"},
      {"frequency_penalty", -2, 2, &LogitChangeOptions::frequency_penalty},
      {"dry_multiplier", 0, 100, &DryOptions::multiplier,
       "  --dry-multiplier M   0 to 100: DRY, a penalty for tokens that would go on with a\n"
       "                       repetition: M * base ^ (length - allowed length) (default 0)\n"},
      {"dry_base", 1, 100, &DryOptions::base, "  --dry-base B         1 to 100 (default 1.75)\n"},
      {"dry_allowed_length", 0, INT32_MAX, &DryOptions::allowed_length,
       "  --dry-allowed-length N\n"
       "                       tokens of a repetition that have no penalty (default 2)\n"},
      {"dry_penalty_last_n", 0, INT32_MAX, &DryOptions::last_n,
       "  --dry-penalty-last-n N\n"
       "                       the last tokens, in which repetitions are found (default 64)\n"},
      {"typical_p", 0, 1, &SamplerOptions::typical_p,
       "  --typical-p P        0 to 1: locally typical sampling, from the tokens whose surprise "
       "is\n"
       "                       nearest to the expected one (default 1)\n"},
      {"xtc_probability", 0, 1, &SamplerOptions::xtc_probability,
       "  --xtc-probability P, --xtc-threshold T\n"
       "                       0 to 1: XTC, at a token with probability P: of the tokens that are\n"
       "                       likely to T or more, only the least likely stays (default 0, "
       "0.1)\n"},
      {"xtc_threshold", 0, 1, &SamplerOptions::xtc_threshold},
      {"dynatemp_range", 0, 100, &SamplerOptions::dynatemp_range,
       "  --dynatemp-range R, --dynatemp-exponent E\n"
       "                       0 to 100: the temperature is lower by R where the model is "
       "certain,\n"
       "                       and higher where not, by entropy ^ E (default 0, 1)\n"},
      {"dynatemp_exponent", 0, 100, &SamplerOptions::dynatemp_exponent},
      {"mirostat", 0, 2, &MirostatOptions::version,
       "  --mirostat V         0 to 2: Mirostat 1 or 2, in place of the filters above; 0: none\n"
       "                       (default 0)\n"},
      {"mirostat_tau", 0, 100, &MirostatOptions::tau,
       "  --mirostat-tau T     0 to 100: its target, bits of surprise a token (default 5)\n"},
      {"mirostat_eta", 0, 1, &MirostatOptions::eta,
       "  --mirostat-eta E     0 to 1: how fast it learns (default 0.1)\n"},
      {"special_text", 0, 1, &OutputOptions::special_text},
      {"logprobs", 0, 20, &OutputOptions::top_logprobs},
  };
  return numbers;
}

const AnswerNumber* find_answer_number(std::string_view name) {
  for (const AnswerNumber& number : answer_numbers()) {
    if (name == number.name) return &number;
  }
  return nullptr;
}

NumberValues known_numbers(const std::map<std::string, double>& values) {
  NumberValues known;
  for (const auto& [name, value] : values) {
    const AnswerNumber* number = find_answer_number(name);
    if (number != nullptr && number->check(value).ok()) known[number] = value;
  }
  return known;
}

std::string to_json(const NumberValues& values) {
  std::string json;
  for (const AnswerNumber& number : answer_numbers()) {  // in their order
    const auto entry = values.find(&number);
    if (entry == values.end()) continue;
    json += std::string(json.empty() ? "" : ", ") + "\"" + number.name +
            "\": " + to_json(entry->second);
  }
  return "{" + json + "}";
}

std::string answer_numbers_json() {
  std::string json;
  for (const AnswerNumber& number : answer_numbers()) {
    const char* needs = number.needs();
    json += std::string(json.empty() ? "[" : ",\n ") + "{\"name\": \"" + number.name +
            "\", \"type\": \"" + number.type() + "\", \"low\": " + to_json(number.low) +
            ", \"high\": " + to_json(number.high) +
            ", \"default\": " + to_json(number.get(GenerateOptions())) +
            ", \"needs\": " + (needs == nullptr ? "null" : "\"" + std::string(needs) + "\"") + "}";
  }
  return json + "]";
}

const char* AnswerNumber::type() const {
  GenerateOptions options;
  return std::visit(
      [&](auto at) {
        using T = std::decay_t<decltype(find(options, at))>;
        if (std::is_same_v<T, bool>) return "boolean";
        return std::is_integral_v<T> ? "integer" : "number";
      },
      member);
}

Status AnswerNumber::check(double value) const {
  if (!(low <= value && value <= high)) return out_of_range(*this, shown(value), "");
  const bool may_be_part = std::string_view(type()) == "number";
  return may_be_part || is_whole(value) ? Status()
                                        : out_of_range(*this, shown(value), "a whole number ");
}

Status AnswerNumber::check(int64_t value) const {
  const auto number = static_cast<double>(value);
  return low <= number && number <= high ? Status()
                                         : out_of_range(*this, std::to_string(value), "");
}

const char* AnswerNumber::needs() const {
  static const std::map<std::string_view, const char*> needed = {
      {"temperature", nullptr},
      {"dynatemp_range", nullptr},
      {"dynatemp_exponent", "dynatemp_range"},
      {"xtc_threshold", "xtc_probability"},
      {"mirostat_tau", "mirostat"},
      {"mirostat_eta", "mirostat"},
      {"dry_base", "dry_multiplier"},
      {"dry_allowed_length", "dry_multiplier"},
      {"dry_penalty_last_n", "dry_multiplier"},
  };
  const auto known = needed.find(name);
  if (known != needed.end()) return known->second;
  const bool draws = std::holds_alternative<int32_t SamplerOptions::*>(member) ||
                     std::holds_alternative<float SamplerOptions::*>(member) ||
                     std::holds_alternative<int32_t MirostatOptions::*>(member);
  return draws ? "temperature" : nullptr;  // at 0, the most likely token is always taken
}

double AnswerNumber::get(const GenerateOptions& options) const {
  GenerateOptions copy = options;
  return std::visit([&](auto at) { return static_cast<double>(find(copy, at)); }, member);
}

void AnswerNumber::set(GenerateOptions* options, double value) const {
  std::visit(
      [&](auto at) {
        auto& number = find(*options, at);
        number = static_cast<std::decay_t<decltype(number)>>(value);
      },
      member);
}

}  // namespace thimble
