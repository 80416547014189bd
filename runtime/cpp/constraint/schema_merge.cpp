#include "constraint/schema_merge.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "constraint/decimal.h"
#include "constraint/interruption.h"

namespace thimble {
namespace {

constexpr int kMaxDepth = 64;     // of $ref and allOf within each other
constexpr int kMaxWork = 20'000;  // merged schemas

/// The text of a piece of a JSON pointer in a URI fragment.
std::string unescaped(std::string_view piece) {
  std::string text;
  for (size_t i = 0; i < piece.size(); ++i) {
    const auto hex = [](char c) {
      const char lower = static_cast<char>(c | 0x20);
      return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    };
    if (piece[i] == '%' && i + 2 < piece.size() && hex(piece[i + 1]) >= 0 &&
        hex(piece[i + 2]) >= 0) {
      text += static_cast<char>(hex(piece[i + 1]) * 16 + hex(piece[i + 2]));
      i += 2;
    } else if (piece[i] == '~' && i + 1 < piece.size() &&
               (piece[i + 1] == '0' || piece[i + 1] == '1')) {
      text += piece[++i] == '0' ? '~' : '/';
    } else {
      text += piece[i];
    }
  }
  return text;
}

const Json* child(const Json& json, const std::string& name) {
  if (json.is(Json::Kind::kObject)) return json.find(name);
  if (!json.is(Json::Kind::kArray) || name.empty() || name.size() > 9) return nullptr;
  if (name.find_first_not_of("0123456789") != name.npos) return nullptr;
  const size_t index = std::stoul(name);
  return index < json.values.size() ? &json.values[index] : nullptr;
}

constexpr std::string_view kByName[] = {"properties", "patternProperties", "$defs", "definitions"};
constexpr std::string_view kData[] = {"const", "enum", "default", "example", "examples"};

template <typename List>
bool has(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// The first schema in another, or itself, one of whose `keys` is the text; null if there is none.
const Json* find_named(const Json& schema, const std::vector<const char*>& keys,
                       const std::string& text) {
  if (!schema.is(Json::Kind::kObject) && !schema.is(Json::Kind::kArray)) return nullptr;
  for (const char* key : keys) {
    const Json* name = schema.find(key);
    if (name != nullptr && name->is(Json::Kind::kString) && name->text == text) return &schema;
  }
  for (size_t i = 0; i < schema.values.size(); ++i) {
    const bool is_list = schema.is(Json::Kind::kArray);
    if (!is_list && has(kData, schema.keys[i])) continue;
    const bool by_name = !is_list && has(kByName, schema.keys[i]);
    const Json& part = schema.values[i];
    if (!by_name) {
      if (const Json* found = find_named(part, keys, text)) return found;
      continue;
    }
    for (const Json& one : part.values) {
      if (const Json* found = find_named(one, keys, text)) return found;
    }
  }
  return nullptr;
}

/// Lets a schema of OpenAPI that has a type, and perhaps an enum, allow null.
void add_null(Json* schema) {
  Json null;
  const Json *type = schema->find("type"), *values = schema->find("enum");
  if (type == nullptr) return;  // as OpenAPI 3.0.3 says
  Json types = type->is(Json::Kind::kArray) ? *type : Json::array({*type});
  types.values.push_back(Json::string("null"));
  if (values != nullptr && values->is(Json::Kind::kArray)) {
    Json more = *values;
    more.values.push_back(std::move(null));
    schema->set("enum", std::move(more));
  }
  schema->set("type", std::move(types));
}

}  // namespace

std::string plain_text(const Json& value) {
  const auto number = value.is(Json::Kind::kNumber) ? parse_decimal(value.text) : std::nullopt;
  if (!number) return to_text(value);
  return (number->negative ? "-" : "") + number->integer +
         (number->fraction.empty() ? "" : "." + number->fraction);
}

Json both(const Json& a, const Json& b) {
  if (a.is(Json::Kind::kTrue) || b.is(Json::Kind::kFalse)) return b;
  if (b.is(Json::Kind::kTrue) || a.is(Json::Kind::kFalse)) return a;
  Json parts = Json::array({});
  std::unordered_set<std::string> known;
  const auto add = [&](const Json& part) {
    if (known.insert(to_text(part)).second) parts.values.push_back(part);
  };
  for (const Json* schema : {&a, &b}) {
    const Json* own = schema->find("allOf");
    if (own == nullptr || schema->keys.size() > 1 || !own->is(Json::Kind::kArray)) {
      add(*schema);
      continue;
    }
    for (const Json& part : own->values) add(part);
  }
  if (parts.values.size() == 1) return parts.values[0];
  Json schema = Json::object();
  schema.set("allOf", std::move(parts));
  return schema;
}

Result<const Json*> SchemaMerger::resolve(const std::string& reference,
                                          const std::string& path) const {
  const size_t fragment = std::min(reference.find('#'), reference.size());
  const std::string id = reference.substr(0, fragment);
  const Json* json = id.empty() ? &document_ : find_named(document_, {"$id", "id"}, id);
  if (json == nullptr && !id.empty()) json = find_named(document_, {"$id", "id"}, id + "#");
  if (json == nullptr || reference.empty()) {
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path + " refers to " + quoted_json(reference) +
        ", but only references within it (#/..., an $anchor or an $id) are supported");
    static const Json kAnything = Json::boolean(true);
    return left_out.ok() ? Result<const Json*>(&kAnything) : left_out;
  }
  std::string_view rest = std::string_view(reference).substr(fragment);
  if (rest.size() > 1 && rest[1] != '/') {
    const Json* named = find_named(*json, {"$anchor"}, std::string(rest.substr(1)));
    json = named != nullptr ? named : find_named(*json, {"$id", "id"}, std::string(rest));
    rest = "";
  }
  if (!rest.empty()) rest.remove_prefix(1);
  while (!rest.empty() && json != nullptr) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    json = child(*json, unescaped(rest.substr(0, end)));
    rest.remove_prefix(end);
  }
  if (json == nullptr) {
    return error_at(path, "refers to " + quoted_json(reference) + ", which it does not have");
  }
  return json;
}

Result<Json> SchemaMerger::flatten(const Json& schema, const std::string& path) {
  return flatten(schema, path, 0);
}

Result<Json> SchemaMerger::flatten(const Json& schema, const std::string& path, int depth) {
  if (schema.is_boolean()) return schema;
  if (!schema.is(Json::Kind::kObject)) {
    return error_at(path,
                    "is " + to_text(schema).substr(0, 40) + ", but must be an object or a boolean");
  }
  if (depth > kMaxDepth) {
    return error_at(path, "has $ref or allOf within each other in more than " +
                              std::to_string(kMaxDepth) +
                              " levels: write what refers to itself within properties or items");
  }
  // Its own keywords are one part, in the place of the first of them that is about properties.
  Json own = Json::object(), merged = Json::boolean(true);
  bool own_is_in = false;
  const auto add_own = [&]() -> Status {
    if (own_is_in) return {};
    own_is_in = true;
    Result<Json> sum = merge(std::move(merged), own, path);
    if (sum.ok()) merged = std::move(*sum);
    return sum.status();
  };
  for (size_t i = 0; i < schema.keys.size(); ++i) {
    const std::string& key = schema.keys[i];
    if (key == "$ref" || key == "allOf" || key == "not" || is_annotation(key)) continue;
    const Status status = check_keyword(key, schema.values[i], path);
    if (!status.ok()) {
      const Status left_out = reading_->leave_out(status.message());
      if (!left_out.ok()) return left_out;
      continue;
    }
    if (key == "pattern" && !schema.values[i].is(Json::Kind::kString)) {
      return error_at(path, "has a pattern that is not a string");
    }
    const bool may_repeat = key == "uniqueItems" && schema.values[i].is(Json::Kind::kFalse);
    if (key == "nullable" || may_repeat) continue;
    // A list, because parts may have one each.
    own.set(key, key == "pattern" ? Json::array({schema.values[i]}) : schema.values[i]);
  }
  const Json* nullable = schema.find("nullable");
  if (nullable != nullptr && nullable->is(Json::Kind::kTrue)) add_null(&own);
  for (size_t i = 0; i < schema.keys.size(); ++i) {
    const std::string& key = schema.keys[i];
    const Json& value = schema.values[i];
    if (key == "properties" || key == "required") {
      const Status status = add_own();
      if (!status.ok()) return status;
    }
    std::vector<const Json*> parts;
    std::string part_path;
    if (key == "$ref") {
      if (!value.is(Json::Kind::kString)) return error_at(path, "has a $ref that is not a string");
      const Result<const Json*> target = resolve(value.text, path);
      if (!target.ok()) return target.status();
      parts = {*target};
      part_path = value.text;
    } else if (key == "allOf") {
      if (!value.is(Json::Kind::kArray)) return error_at(path, "has an allOf that is not an array");
      for (const Json& part : value.values) parts.push_back(&part);
    }
    if (key == "not") {
      const Result<Json> flat = negation(value, path + "/not", depth + 1);
      if (!flat.ok()) return flat;
      Result<Json> sum = merge(std::move(merged), *flat, path);
      if (!sum.ok()) return sum;
      merged = std::move(*sum);
    }
    for (size_t part = 0; part < parts.size(); ++part) {
      if (key == "allOf") part_path = path + "/allOf/" + std::to_string(part);
      const Result<Json> flat = flatten(*parts[part], part_path, depth + 1);
      if (!flat.ok()) return flat;
      Result<Json> sum = merge(std::move(merged), *flat, path);
      if (!sum.ok()) return sum;
      merged = std::move(*sum);
    }
  }
  const Status status = add_own();
  if (!status.ok()) return status;
  return merged;
}

Result<Json> SchemaMerger::merge(Json a, const Json& b, const std::string& path) {
  if (a.is(Json::Kind::kTrue) || b.is(Json::Kind::kFalse)) return b;
  if (b.is(Json::Kind::kTrue) || a.is(Json::Kind::kFalse)) return a;
  if (++work_ > kMaxWork) return error_at(path, "has too many $ref and allOf to be merged");
  const Status status = Interruption::check();
  if (!status.ok()) return status;
  const auto names_some = [](const Json& schema) {
    return schema.find("properties") != nullptr || schema.find("patternProperties") != nullptr ||
           schema.find("additionalProperties") != nullptr;
  };
  const bool has_patterns =
      a.find("patternProperties") != nullptr || b.find("patternProperties") != nullptr;
  if (has_patterns && names_some(a) && names_some(b)) {
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path +
        " joins patternProperties with other properties by $ref or allOf, which is not supported: "
        "write them as one");
    if (!left_out.ok()) return left_out;
    a.remove("patternProperties");
    Json other = b;
    other.remove("patternProperties");
    return merge(std::move(a), other, path);
  }
  Json merged = a;
  const bool objects = a.find("properties") != nullptr || b.find("properties") != nullptr;
  if (objects) {
    Result<Json> properties = merge_properties(a, b);
    if (!properties.ok()) return properties;
    merged.set("properties", std::move(*properties));
  }
  if (a.find("prefixItems") != nullptr || b.find("prefixItems") != nullptr) {
    Result<Json> items = merge_first_items(a, b, path);
    if (!items.ok()) return items;
    merged.set("prefixItems", std::move(*items));
  }
  for (size_t i = 0; i < b.keys.size(); ++i) {
    const std::string& key = b.keys[i];
    if (key == "properties" || key == "prefixItems") continue;
    const Json* ours = a.find(key);
    if (ours == nullptr) {
      merged.set(key, b.values[i]);
      continue;
    }
    if (equal_texts(*ours, b.values[i]) && key != "anyOf" && key != "oneOf") continue;
    const Status status = merge_keyword(key, *ours, b.values[i], path, &merged);
    if (!status.ok()) return status;
  }
  return merged;
}

/// A property that only one of them has is, for the other, an additional one.
Result<Json> SchemaMerger::merge_properties(const Json& a, const Json& b) const {
  const Json none = Json::object(), anything = Json::boolean(true);
  const auto of = [&none](const Json& schema) {
    const Json* properties = schema.find("properties");
    return properties == nullptr ? &none : properties;
  };
  const auto additional = [&anything](const Json& schema) {
    const Json* extra = schema.find("additionalProperties");
    return extra == nullptr ? &anything : extra;
  };
  const Json &first = *of(a), &second = *of(b);
  std::unordered_map<std::string_view, const Json*> others;
  for (size_t i = 0; i < second.keys.size(); ++i) others[second.keys[i]] = &second.values[i];
  Json merged = Json::object();
  for (size_t i = 0; i < first.keys.size(); ++i) {
    const auto other = others.find(first.keys[i]);
    const Json& theirs = other == others.end() ? *additional(b) : *other->second;
    merged.append(first.keys[i], both(first.values[i], theirs));
    if (other != others.end()) other->second = nullptr;
  }
  for (size_t i = 0; i < second.keys.size(); ++i) {
    if (others[second.keys[i]] == nullptr) continue;
    merged.append(second.keys[i], both(*additional(a), second.values[i]));
  }
  return merged;
}

/// A first item that only one of them has is, for the other, one of its items.
Result<Json> SchemaMerger::merge_first_items(const Json& a, const Json& b,
                                             const std::string& path) const {
  const Json none = Json::array({}), anything = Json::boolean(true);
  for (const Json* schema : {&a, &b}) {
    const Json *first = schema->find("prefixItems"), *items = schema->find("items");
    if (first != nullptr && !first->is(Json::Kind::kArray)) {
      return error_at(path, "has prefixItems that are not an array");
    }
    if (items != nullptr && items->is(Json::Kind::kArray)) {
      return error_at(path, "joins prefixItems with a list of items: write both as prefixItems");
    }
  }
  const auto value_or = [](const Json& schema, const char* key, const Json& otherwise) {
    const Json* value = schema.find(key);
    return value == nullptr ? &otherwise : value;
  };
  const Json &first = *value_or(a, "prefixItems", none),
             &second = *value_or(b, "prefixItems", none);
  const Json &first_rest = *value_or(a, "items", anything),
             &second_rest = *value_or(b, "items", anything);
  Json merged = Json::array({});
  for (size_t i = 0; i < std::max(first.values.size(), second.values.size()); ++i) {
    merged.values.push_back(both(i < first.values.size() ? first.values[i] : first_rest,
                                 i < second.values.size() ? second.values[i] : second_rest));
  }
  return merged;
}

}  // namespace thimble
