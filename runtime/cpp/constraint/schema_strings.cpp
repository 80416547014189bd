// What SchemaCompiler makes of the keywords of strings.

#include <optional>
#include <string_view>
#include <utility>

#include "constraint/formats.h"
#include "constraint/intersection.h"
#include "constraint/program.h"
#include "constraint/regex.h"
#include "constraint/regex_syntax.h"
#include "constraint/schema_compiler.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

/// A string as it stands, character by character.
Grammar::Node exact_text(std::string_view text, JsonStrings* strings, Grammar* grammar) {
  std::vector<Grammar::Node> nodes;
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_code_point(text, &at);
    nodes.push_back(strings->character(CodePoints(point, point)));
  }
  return grammar->sequence(std::move(nodes));
}

}  // namespace

Count SchemaCompiler::open_bounds(const std::vector<StringPart>& parts, Count length) {
  for (const StringPart& part : parts) {
    if (part.excluded) continue;
    const Result<LengthRange> own = regex_lengths(part.text, part.kind != StringPart::kFormat);
    if (!own.ok()) continue;
    if (own->min >= length.min) length.min = 0;
    if (own->max <= length.max) length.max = Grammar::kUnlimited;
  }
  return length;
}

Result<std::vector<SchemaCompiler::StringPart>> SchemaCompiler::string_parts(
    const Json& schema, const std::string& path) {
  std::vector<StringPart> parts;
  const auto add_pattern = [&](const Json& pattern, bool excluded) -> Status {
    Grammar tried;
    JsonStrings strings(&tried, layout_->strings().notation());
    const Result<Grammar::Node> node = strings.content(pattern.text, /*whole=*/false);
    if (!node.ok()) {
      return reading_->leave_out("the JSON schema at " + path +
                                 " has a pattern that is not supported: " + node.message());
    }
    parts.push_back({pattern.text, StringPart::kPattern, excluded});
    return {};
  };
  Status status;
  const Json* patterns = schema.find("pattern");
  for (size_t i = 0; patterns != nullptr && status.ok() && i < patterns->values.size(); ++i) {
    status = add_pattern(patterns->values[i], false);
  }
  const Json* excluded = schema.find("not");
  const Json* none_of = excluded != nullptr ? excluded->find("anyOf") : nullptr;
  for (size_t i = 0; none_of != nullptr && status.ok() && i < none_of->values.size(); ++i) {
    const Json &one = none_of->values[i], *values = one.find("enum"),
               *pattern = one.find("pattern");
    for (size_t n = 0; values != nullptr && n < values->values.size(); ++n) {
      const Json& value = values->values[n];
      if (value.is(Json::Kind::kString)) parts.push_back({value.text, StringPart::kValue, true});
    }
    if (pattern != nullptr) status = add_pattern(*pattern, true);
  }
  if (!status.ok()) return status;
  const Json* format = schema.find("format");
  if (format == nullptr) return parts;
  if (!format->is(Json::Kind::kString)) return error_at(path, "has a format that is not a string");
  const std::optional<std::string_view> regex = format_regex(format->text);
  if (regex) parts.push_back({*regex, StringPart::kFormat});
  if (!regex && !is_free_format(format->text)) {
    reading_->note("the JSON schema's format " + quoted_json(format->text).substr(0, 40) + " at " +
                   path + " is not enforced: only " + format_names() + " are");
  }
  return parts;
}

Result<Grammar::Node> SchemaCompiler::string(const Json& schema, const std::string& path,
                                             Level level) {
  const Result<uint64_t> min = count_of(schema, "minLength", 0, path);
  const Result<uint64_t> max = count_of(schema, "maxLength", Grammar::kUnlimited, path);
  for (const Result<uint64_t>* length : {&min, &max}) {
    if (!length->ok()) return length->status();
  }
  const Result<std::vector<StringPart>> parts = string_parts(schema, path);
  if (!parts.ok()) return parts.status();
  std::vector<Grammar::Node> ways;
  for (JsonStrings* strings : strings(level)) {
    const Result<Grammar::Node> way = string_in(strings, is_raw(level), *parts, {*min, *max}, path);
    if (!way.ok()) return way;
    ways.push_back(*way);
  }
  return grammar_->choice(std::move(ways));
}

Result<Grammar::Node> SchemaCompiler::string_in(JsonStrings* strings, bool raw,
                                                const std::vector<StringPart>& parts,
                                                const Count& length, const std::string& path) {
  const auto [min, max] = open_bounds(parts, length);
  const bool bounded = min > 0 || max != Grammar::kUnlimited;
  const bool is_any = parts.empty() && !bounded;
  const bool checked = raw || (strings->notation().inner_quotes && !is_any);
  if (parts.empty() && !checked) return strings->of_length(min, max);
  if (parts.size() == 1 && !parts[0].excluded && !bounded && !checked) {
    const Result<Grammar::Node> node =
        strings->matching(parts[0].text, parts[0].kind == StringPart::kFormat);
    return node.ok() ? grammar_->shared(*node) : node;
  }
  if (is_any && any_raw_) return *any_raw_;
  Result<CountedText::Shared> lengths = lengths_of(parts, raw, strings->notation());
  if (!lengths.ok()) {
    const Status left_out =
        reading_->leave_out("the JSON schema at " + path +
                            " joins pattern, format, not or lengths of a string, which " +
                            lengths.message() + ": write them as one pattern");
    if (!left_out.ok()) return left_out;
    lengths = lengths_of({}, raw, strings->notation());
    if (!lengths.ok()) return error_at(path, lengths.message());
  }
  if (*lengths == nullptr) return grammar_->nothing();
  if (!is_any) {
    const auto counted = std::make_shared<CountedText>(*lengths, min, max);
    return strings->quoted(grammar_->counted_text(counted));
  }
  any_raw_ = grammar_->shared(text_node((*lengths)->automaton, /*erased=*/{}, grammar_));
  return *any_raw_;
}

Result<CountedText::Shared> SchemaCompiler::lengths_of(const std::vector<StringPart>& parts,
                                                       bool raw, const StringNotation& notation) {
  std::string key = raw ? "raw" : notation.inner_quotes ? "single" : "";
  for (const StringPart& part : parts) {
    key += quoted_json(part.text) + std::to_string(part.kind) + (part.excluded ? "-" : "+");
  }
  const auto [place, is_new] = lengths_.try_emplace(key);
  if (!is_new) return place->second;
  std::vector<AutomatonPart> all;
  for (const StringPart& part : parts) {
    Grammar grammar;
    JsonStrings strings(&grammar, notation);
    const Result<Grammar::Node> node =
        part.kind == StringPart::kValue
            ? Result<Grammar::Node>(exact_text(part.text, &strings, &grammar))
            : strings.content(part.text, part.kind == StringPart::kFormat);
    if (!node.ok()) return node.status();
    Result<std::optional<Program>> program = compile_texts(grammar, *node);
    if (!program.ok()) return program.status();
    if (program->has_value()) {
      all.push_back({std::move(**program), part.excluded});
    } else if (!part.excluded) {
      return CountedText::Shared();
    }
  }
  if (raw) {
    const Status status = exclude_ends(&all);
    if (!status.ok()) return status;
  }
  if (notation.inner_quotes) {
    Grammar grammar;
    Result<Program> early = compile_program(grammar, JsonStrings(&grammar, notation).ends_early());
    if (!early.ok()) return early.status();
    all.push_back({std::move(*early), true});
  }
  Grammar grammar;
  Result<Program> characters =
      compile_program(grammar, JsonStrings(&grammar, notation).any_content());
  if (!characters.ok()) return characters.status();
  Result<CountedText::Shared> lengths =
      CountedText::lengths(std::move(all), std::move(*characters));
  if (!lengths.ok()) return lengths.status();
  return place->second = std::move(*lengths);
}

Status SchemaCompiler::exclude_ends(std::vector<AutomatonPart>* parts) {
  const std::string& end = layout_->arguments()->behind_value;
  Grammar grammar;
  const Grammar::Node any = JsonStrings(&grammar, layout_->raw().notation()).any_content();
  std::vector<Grammar::Node> choices = {grammar.sequence({any, grammar.literal(end), any})};
  for (size_t size = 1; size < end.size(); ++size) {
    const std::string begun = end.substr(0, size);
    if ((begun + end).find(end) < size) {
      choices.push_back(grammar.sequence({any, grammar.literal(begun)}));
    }
  }
  Result<Program> program = compile_program(grammar, grammar.choice(std::move(choices)));
  if (program.ok()) parts->push_back({std::move(*program), true});
  return program.status();
}

}  // namespace thimble
