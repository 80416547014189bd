#include "constraint/schema.h"

#include <utility>

#include "constraint/json_layout.h"
#include "constraint/schema_compiler.h"

namespace thimble {
namespace {

/// Reads the options in a schema's x-guidance, whose names are llguidance's.
Status read_spacing(const Json& options, JsonSpacing* spacing) {
  const auto refused = [](const std::string& key) {
    return Status::error("the JSON schema's x-guidance has " + key +
                         ", but only whitespace_flexible (a boolean), item_separator and "
                         "key_separator (regular expressions) are supported");
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
    } else if (key == "coerce_one_of" && value.is(Json::Kind::kTrue)) {
      continue;  // always so
    } else {
      return refused(quoted_json(key) + ": " + to_text(value).substr(0, 40));
    }
  }
  return {};
}

}  // namespace

Result<Grammar::Node> parse_schema(std::string_view text, Grammar* grammar,
                                   std::vector<std::string>* notes) {
  const Result<Json> json = parse_json(text);
  if (!json.ok()) return Status::error("the JSON schema cannot be read: " + json.message());
  return schema_node(*json, grammar, notes);
}

Result<Grammar::Node> schema_node(const Json& schema, Grammar* grammar,
                                  std::vector<std::string>* notes) {
  JsonSpacing spacing;
  const Json* options = schema.find("x-guidance");
  if (options != nullptr) {
    const Status status = read_spacing(*options, &spacing);
    if (!status.ok()) return status;
  }
  Result<JsonLayout> layout = JsonLayout::create(grammar, spacing);
  if (!layout.ok()) return layout.status();
  return SchemaCompiler(schema, grammar, &*layout, notes).compile(schema);
}

}  // namespace thimble
