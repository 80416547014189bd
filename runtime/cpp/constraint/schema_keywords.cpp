#include <algorithm>
#include <string_view>
#include <vector>

#include "constraint/schema_merge.h"

namespace thimble {
namespace {

constexpr std::string_view kAnnotations[] = {
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "discriminator",
    "example",
    "examples",
    "id",
    "readOnly",
    "title",
    "writeOnly",
};

constexpr std::string_view kSupported[] = {
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "propertyOrdering",
    "required",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
};

constexpr std::string_view kTypes[] = {"null",   "boolean", "integer", "number",
                                       "string", "array",   "object"};

/// The type that a keyword is about.
struct TypeKeyword {
  std::string_view type, keyword;
};

constexpr TypeKeyword kTypeKeywords[] = {
    {"number", "exclusiveMaximum"},
    {"number", "exclusiveMinimum"},
    {"number", "maximum"},
    {"number", "minimum"},
    {"number", "multipleOf"},
    {"string", "format"},
    {"string", "maxLength"},
    {"string", "minLength"},
    {"string", "pattern"},
    {"array", "additionalItems"},
    {"array", "items"},
    {"array", "maxItems"},
    {"array", "minItems"},
    {"array", "prefixItems"},
    {"array", "unevaluatedItems"},
    {"array", "uniqueItems"},
    {"object", "additionalProperties"},
    {"object", "maxProperties"},
    {"object", "minProperties"},
    {"object", "patternProperties"},
    {"object", "properties"},
    {"object", "propertyNames"},
    {"object", "propertyOrdering"},
    {"object", "required"},
    {"object", "unevaluatedProperties"},
};

template <typename List>
bool has(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

}  // namespace

bool is_annotation(const std::string& key) {
  return has(kAnnotations, key) || key.rfind("x-", 0) == 0;
}

Status check_keyword(const std::string& key, const Json& value, const std::string& path) {
  if (has(kSupported, key) || is_annotation(key)) return {};
  if (key == "nullable" && value.is_boolean()) return {};
  return Status::error("the JSON schema has the keyword " + quoted_json(key) + " at " + path +
                       ", which is not supported: leave it out, and check the answer for it");
}

Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) {
  std::vector<std::string> types;
  const Json* type = schema.find("type");
  if (type == nullptr) {
    for (const std::string_view name : kTypes) {
      if (name != "integer") types.emplace_back(name);
    }
    return types;
  }
  std::vector<Json> values = type->is(Json::Kind::kArray) ? type->values : std::vector<Json>{*type};
  for (const Json& value : values) {
    if (!value.is(Json::Kind::kString) || !has(kTypes, value.text)) {
      return Status::error("the JSON schema has the type " + to_text(value) + " at " + path +
                           ", but it must be null, boolean, integer, number, string, array or "
                           "object");
    }
    if (!has(types, value.text)) types.push_back(value.text);
  }
  // Every integer is a number.
  if (has(types, "number"))
    types.erase(std::remove(types.begin(), types.end(), "integer"), types.end());
  return types;
}

Result<std::vector<std::string>> meant_types(const Json& schema, const std::string& path) {
  std::vector<std::string> types;
  for (const auto& [type, keyword] : kTypeKeywords) {
    if (schema.find(std::string(keyword)) != nullptr && !has(types, type)) {
      types.emplace_back(type);
    }
  }
  return schema.find("type") != nullptr || types.empty() ? types_of(schema, path) : types;
}

}  // namespace thimble
