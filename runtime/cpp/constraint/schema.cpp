#include "constraint/schema.h"

#include <optional>
#include <utility>

#include "constraint/json_layout.h"
#include "constraint/schema_compiler.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

/// Lets strings stand as they are between two of these texts or tokens, and names without quotes.
void use_quote(const std::string& quote, const TokenNames& tokens, JsonSpacing* spacing) {
  const TokenNames::Token* token = tokens.find(quote);
  spacing->strings = {token != nullptr ? token->bytes : quote, false, CodePoints::all()};
  if (spacing->strings.quote[0] != kMarkByte) {
    size_t at = 0;
    const uint32_t first = next_code_point(quote, &at);
    spacing->strings.points = CodePoints(first, first).complement();
  }
  spacing->names = {"", false, name_letters()};
}

/// Reads how a call's arguments are written; false if it does not say that.
bool read_arguments(const Json& value, std::optional<ArgumentsForm>* form) {
  if (!value.is(Json::Kind::kObject)) return false;
  ArgumentsForm& read = form->emplace();
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const std::string& key = value.keys[i];
    const Json& one = value.values[i];
    std::string* text = key == "before_name"    ? &read.before_name
                        : key == "before_value" ? &read.before_value
                        : key == "behind_value" ? &read.behind_value
                        : key == "between"      ? &read.between
                                                : nullptr;
    if (text != nullptr && one.is(Json::Kind::kString)) {
      *text = one.text;
    } else if (key == "raw_strings" && one.is_boolean()) {
      read.raw_strings = one.is(Json::Kind::kTrue);
    } else if (key == "python_values" && one.is_boolean()) {
      read.python_values = one.is(Json::Kind::kTrue);
    } else {
      return false;
    }
  }
  return !read.raw_strings || !read.behind_value.empty();
}

/// Reads the options in a schema's x-guidance, whose names are llguidance's.
Status read_spacing(const Json& options, const TokenNames& tokens, JsonSpacing* spacing) {
  const auto refused = [](const std::string& key) {
    return Status::error(
        "the JSON schema's x-guidance has " + key +
        ", which is not supported. Use whitespace_flexible (a boolean), item_separator or "
        "key_separator (regular expressions), string_quote (a text), or arguments. The last is an "
        "object of before_name, before_value, behind_value and between (texts), and raw_strings "
        "and python_values (booleans)");
  };
  if (!options.is(Json::Kind::kObject)) return refused(to_text(options).substr(0, 40));
  for (size_t i = 0; i < options.keys.size(); ++i) {
    const std::string& key = options.keys[i];
    const Json& value = options.values[i];
    if (key == "whitespace_flexible" && value.is_boolean()) {
      spacing->flexible = value.is(Json::Kind::kTrue);
    } else if (key == "item_separator" && value.is(Json::Kind::kString)) {
      spacing->item_separator = value.text;
    } else if (key == "key_separator" && value.is(Json::Kind::kString)) {
      spacing->key_separator = value.text;
    } else if (key == "string_quote" && value.is(Json::Kind::kString) && !value.text.empty()) {
      use_quote(value.text, tokens, spacing);
    } else if (key == "arguments" && read_arguments(value, &spacing->arguments)) {
      continue;
    } else if (key == "coerce_one_of" && value.is(Json::Kind::kTrue)) {
      continue;  // always so
    } else {
      return refused(quoted_json(key) + ": " + to_text(value).substr(0, 40));
    }
  }
  return {};
}

}  // namespace

Result<Grammar::Node> parse_schema(std::string_view text, const TokenNames& tokens,
                                   Grammar* grammar, SchemaReading* reading) {
  const Result<Json> json = parse_json(text);
  if (!json.ok()) return Status::error("the JSON schema cannot be read: " + json.message());
  return schema_node(*json, tokens, grammar, reading);
}

Result<Grammar::Node> schema_node(const Json& schema, const TokenNames& tokens, Grammar* grammar,
                                  SchemaReading* reading) {
  JsonSpacing spacing;
  const Json* options = schema.find("x-guidance");
  if (options != nullptr) {
    const Status status = read_spacing(*options, tokens, &spacing);
    if (!status.ok()) return status;
  }
  Result<JsonLayout> layout = JsonLayout::create(grammar, spacing);
  if (!layout.ok()) return layout.status();
  return SchemaCompiler(schema, grammar, &*layout, reading).compile(schema);
}

}  // namespace thimble
