// Which values a schema describes: for an enum beside other keywords.

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "constraint/decimal.h"
#include "constraint/schema_compiler.h"

namespace thimble {
namespace {

constexpr int kMaxDepth = 64;

}  // namespace

std::string type_of(const Json& value) {
  switch (value.kind) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kFalse:
    case Json::Kind::kTrue:
      return "boolean";
    case Json::Kind::kNumber:
      return plain_text(value).find_first_of(".eE") == std::string::npos ? "integer" : "number";
    case Json::Kind::kString:
      return "string";
    case Json::Kind::kArray:
      return "array";
    case Json::Kind::kObject:
      return "object";
  }
  return "";
}

Json with_single_patterns(Json schema) {
  const Json* patterns = schema.find("pattern");
  if (patterns == nullptr) return schema;
  Json parts = Json::array({});
  for (const Json& pattern : patterns->values) {
    parts.values.push_back(Json::object());
    parts.values.back().set("pattern", pattern);
  }
  schema.remove("pattern");
  schema.set("allOf", std::move(parts));
  return schema;
}

Result<bool> SchemaCompiler::holds(const Json& schema, const Json& value, const std::string& path,
                                   int depth) {
  if (depth > kMaxDepth) {
    return error_at(path, "has an enum beside other keywords that refer to themselves");
  }
  const Result<Json> flat = merger_.flatten(schema, path);
  return flat.ok() ? flat_holds(*flat, value, path, depth) : flat.status();
}

Result<bool> SchemaCompiler::flat_holds(const Json& flat, const Json& value,
                                        const std::string& path, int depth) {
  if (flat.is_boolean()) return flat.is(Json::Kind::kTrue);
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* options = flat.find(key);
    if (options == nullptr) continue;
    bool holds_one = false;
    for (size_t i = 0; !holds_one && i < options->values.size(); ++i) {
      const std::string place = path + "/" + key + "/" + std::to_string(i);
      const Result<bool> one = holds(options->values[i], value, place, depth + 1);
      if (!one.ok()) return one;
      holds_one = *one;
    }
    if (!holds_one) return false;
  }
  const Json* excluded = flat.find("not");
  for (const Json& one : excluded ? excluded->find("anyOf")->values : std::vector<Json>()) {
    const Result<bool> held = holds(one, value, path + "/not", depth + 1);
    if (!held.ok()) return held;
    if (*held) return false;
  }
  const auto types = types_of(flat, path);
  if (!types.ok()) return types.status();
  const std::string type = type_of(value), text = plain_text(value);
  const auto has = [&types](const std::string& name) {
    return std::find(types->begin(), types->end(), name) != types->end();
  };
  if (!has(type) && !(type == "integer" && has("number"))) return false;
  const auto equal = [&text](const Json& other) { return plain_text(other) == text; };
  const Json *list = flat.find("enum"), *constant = flat.find("const");
  if (constant != nullptr && !equal(*constant)) return false;
  if (list != nullptr && std::none_of(list->values.begin(), list->values.end(), equal)) {
    return false;
  }
  if (type == "array") return holds_items(flat, value, path, depth);
  if (type == "object") return holds_members(flat, value, path, depth);
  if (type != "string" && type != "integer" && type != "number") return true;
  Json rest = flat;
  for (const char* key : {"anyOf", "oneOf", "enum", "const", "not"}) rest.remove(key);
  rest.set("type", Json::string(type));
  const auto [place, is_new] = checked_.try_emplace(to_text(rest));
  if (is_new) {
    Result<std::optional<Program>> program =
        program_of(with_single_patterns(std::move(rest)), StringNotation(), path);
    if (!program.ok()) return program.status();
    if (program->has_value()) place->second = std::make_unique<Recognizer>(std::move(**program));
  }
  return place->second != nullptr && place->second->matches(text);
}

Result<bool> SchemaCompiler::holds_items(const Json& schema, const Json& value,
                                         const std::string& path, int depth) {
  const Result<uint64_t> min = count_of(schema, "minItems", 0, path);
  const Result<uint64_t> max = count_of(schema, "maxItems", Grammar::kUnlimited, path);
  for (const Result<uint64_t>* length : {&min, &max}) {
    if (!length->ok()) return length->status();
  }
  if (value.values.size() < *min || value.values.size() > *max) return false;
  std::set<std::string> texts;
  for (const Json& item : value.values) {
    if (!texts.insert(plain_text(item)).second && schema.find("uniqueItems") != nullptr)
      return false;
  }
  const Json anything = Json::boolean(true);
  const Json *first = schema.find("prefixItems"), *more = schema.find("items");
  if (more != nullptr && more->is(Json::Kind::kArray)) {
    first = more;
    more = schema.find("additionalItems");
  }
  if (more == nullptr) more = schema.find("unevaluatedItems");
  if (more == nullptr) more = &anything;
  for (size_t i = 0; i < value.values.size(); ++i) {
    const bool is_first = first != nullptr && i < first->values.size();
    const Result<bool> one =
        holds(is_first ? first->values[i] : *more, value.values[i], path + "/items", depth + 1);
    if (!one.ok() || !*one) return one;
  }
  return true;
}

Result<bool> SchemaCompiler::holds_members(const Json& schema, const Json& value,
                                           const std::string& path, int depth) {
  const Json *properties = schema.find("properties"), *required = schema.find("required");
  const Result<uint64_t> least = count_of(schema, "minProperties", 0, path);
  const Result<uint64_t> most = count_of(schema, "maxProperties", Grammar::kUnlimited, path);
  for (const Result<uint64_t>* count : {&least, &most}) {
    if (!count->ok()) return count->status();
  }
  if (value.keys.size() < *least || value.keys.size() > *most) return false;
  const Json* patterns = schema.find("patternProperties");
  const Json *names = schema.find("propertyNames"), *more = schema.find("additionalProperties");
  if (more == nullptr) more = schema.find("unevaluatedProperties");
  if (required != nullptr && required->is(Json::Kind::kArray)) {
    for (const Json& name : required->values) {
      if (value.find(name.text) == nullptr) return false;
    }
  }
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const std::string& key = value.keys[i];
    if (names != nullptr) {
      const Result<bool> named =
          holds(*names, Json::string(key), path + "/propertyNames", depth + 1);
      if (!named.ok() || !*named) return named;
    }
    bool has_pattern = false;
    for (size_t n = 0; patterns != nullptr && n < patterns->keys.size(); ++n) {
      Json name = Json::object();
      name.set("pattern", Json::string(patterns->keys[n]));
      const Result<bool> named = holds(name, Json::string(key), path, depth + 1);
      if (!named.ok()) return named;
      if (!*named) continue;
      has_pattern = true;
      const std::string place = path + "/patternProperties/" + patterns->keys[n];
      const Result<bool> one = holds(patterns->values[n], value.values[i], place, depth + 1);
      if (!one.ok() || !*one) return one;
    }
    const Json* rule = properties == nullptr ? nullptr : properties->find(key);
    if (rule == nullptr && has_pattern) continue;
    if (rule == nullptr) rule = more;
    if (rule == nullptr) continue;
    const Result<bool> one = holds(*rule, value.values[i], path + "/properties/" + key, depth + 1);
    if (!one.ok() || !*one) return one;
  }
  return true;
}

}  // namespace thimble
