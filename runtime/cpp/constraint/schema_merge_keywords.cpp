// How SchemaMerger joins two values of a keyword, and what is left of a "not".

#include <algorithm>
#include <utility>
#include <vector>

#include "constraint/decimal.h"
#include "constraint/schema_merge.h"

namespace thimble {
namespace {

constexpr size_t kMaxChoices = 256;

/// The values of `a` that are in `b`.
Json intersection(const Json& a, const Json& b) {
  Json result = Json::array({});
  for (const Json& value : a.values) {
    const bool is_common = std::any_of(b.values.begin(), b.values.end(), [&](const Json& other) {
      return equal_texts(value, other);
    });
    if (is_common) result.values.push_back(value);
  }
  return result;
}

/// {"not": {"anyOf": [one]}}
Json none_of(Json one) {
  Json list = Json::object(), schema = Json::object();
  list.set("anyOf", Json::array({std::move(one)}));
  schema.set("not", std::move(list));
  return schema;
}

}  // namespace

Status SchemaMerger::merge_keyword(const std::string& key, const Json& ours, const Json& theirs,
                                   const std::string& path, Json* merged) {
  if (key == "type") {
    Json a = Json::object(), b = Json::object();
    a.set("type", ours);
    b.set("type", theirs);
    const auto first = types_of(a, path), second = types_of(b, path);
    if (!first.ok()) return first.status();
    if (!second.ok()) return second.status();
    Json types = Json::array({});
    const auto has = [](const std::vector<std::string>& list, const std::string& type) {
      return std::find(list.begin(), list.end(), type) != list.end();
    };
    for (const std::string& type : *first) {
      if (has(*second, type) || (type == "integer" && has(*second, "number"))) {
        types.values.push_back(Json::string(type));
      } else if (type == "number" && has(*second, "integer")) {
        types.values.push_back(Json::string("integer"));
      }
    }
    if (types.values.empty()) {
      *merged = Json::boolean(false);
    } else {
      merged->set(key, std::move(types));
    }
    return {};
  }
  if (key == "required") {
    Json names = ours;  // repeated ones do no harm
    names.values.insert(names.values.end(), theirs.values.begin(), theirs.values.end());
    merged->set(key, std::move(names));
    return {};
  }
  if (key == "enum") {
    merged->set(key, intersection(ours, theirs));
    return {};
  }
  if (key == "const") {
    *merged = Json::boolean(false);
    return {};
  }
  if (key == "not") {
    Json list = *ours.find("anyOf");
    for (const Json& one : theirs.find("anyOf")->values) list.values.push_back(one);
    Json all = Json::object();
    all.set("anyOf", std::move(list));
    merged->set(key, std::move(all));
    return {};
  }
  if (key == "propertyOrdering") return {};  // one order
  if (key == "additionalProperties" || key == "propertyNames" || key == "unevaluatedProperties" ||
      key == "unevaluatedItems" || (key == "items" && !ours.is(Json::Kind::kArray))) {
    merged->set(key, both(ours, theirs));
    return {};
  }
  if (key == "pattern") {
    Json patterns = ours;
    patterns.values.insert(patterns.values.end(), theirs.values.begin(), theirs.values.end());
    merged->set(key, std::move(patterns));
    return {};
  }
  if (key == "anyOf" || key == "oneOf") {
    if (ours.values.size() * theirs.values.size() > kMaxChoices) {
      return error_at(path, "joins two " + key + " of more than " + std::to_string(kMaxChoices) +
                                " pairs: write them as one");
    }
    Json pairs = Json::array({});
    for (const Json& a : ours.values) {
      for (const Json& b : theirs.values) pairs.values.push_back(both(a, b));
    }
    merged->set(key, std::move(pairs));
    return {};
  }
  const bool least = key.rfind("min", 0) == 0 || key == "exclusiveMinimum";
  const bool most = key.rfind("max", 0) == 0 || key == "exclusiveMaximum";
  if ((least || most) && ours.is(Json::Kind::kNumber) && theirs.is(Json::Kind::kNumber)) {
    const auto a = parse_decimal(ours.text), b = parse_decimal(theirs.text);
    if (a && b) {
      const bool theirs_is_larger = compare(*b, *a) > 0;
      merged->set(key, theirs_is_larger == least ? theirs : ours);
      return {};
    }
  }
  return reading_->leave_out("the JSON schema at " + path + " joins two different values of " +
                             quoted_json(key) + ", which is not supported");
}

Result<Json> SchemaMerger::negation(const Json& schema, const std::string& path, int depth) {
  const Result<Json> flattened = flatten(schema, path, depth);
  if (!flattened.ok()) return flattened;
  Json flat = *flattened;
  if (flat.is_boolean()) return Json::boolean(flat.is(Json::Kind::kFalse));
  if (flat.keys.empty()) return Json::boolean(false);
  const auto types = types_of(flat, path);
  if (!types.ok()) return types.status();
  const bool has_type = flat.find("type") != nullptr;
  flat.remove("type");
  const std::string key = flat.keys.size() == 1 ? flat.keys[0] : "";
  const Json value = key.empty() ? Json() : flat.values[0];
  const auto is_only = [&](const char* type) { return types->size() == 1 && (*types)[0] == type; };
  if (flat.keys.empty() && !(is_only("integer"))) {
    std::vector<std::string> all = *types_of(Json::object(), path);
    Json others = Json::array({});
    for (const std::string& type : all) {
      if (std::find(types->begin(), types->end(), type) == types->end()) {
        others.values.push_back(Json::string(type));
      }
    }
    const bool some_integer = std::find(types->begin(), types->end(), "integer") != types->end();
    Json result = Json::object();
    result.set("type", std::move(others));
    if (!some_integer) return result;
  }
  if (key == "anyOf" && !has_type && value.is(Json::Kind::kArray)) {
    Json result = Json::boolean(true);
    for (size_t i = 0; i < value.values.size(); ++i) {
      const Result<Json> one =
          negation(value.values[i], path + "/anyOf/" + std::to_string(i), depth + 1);
      if (!one.ok()) return one;
      Result<Json> sum = merge(std::move(result), *one, path);
      if (!sum.ok()) return sum;
      result = std::move(*sum);
    }
    return result;
  }
  if (key == "not" && !has_type) return value;  // which is an anyOf
  if (key == "enum" || key == "const") {
    Json values = Json::array({});
    for (const Json& one : key == "enum" ? value.values : std::vector<Json>{value}) {
      const std::string type = type_of(one);
      const auto has = [&](const char* name) {
        return std::find(types->begin(), types->end(), name) != types->end();
      };
      if (has(type.c_str()) || (type == "integer" && has("number"))) values.values.push_back(one);
    }
    Json one = Json::object();
    one.set("enum", std::move(values));
    return none_of(std::move(one));
  }
  const bool of_strings = key == "pattern" && value.values.size() == 1;
  const bool of_objects = key == "required" && value.values.size() == 1;
  const char* type = of_strings ? "string" : "object";
  if ((of_strings || of_objects) && (!has_type || is_only(type))) {
    Json one = Json::object();
    one.set("type", Json::string(type));
    one.set(key, of_strings ? value.values[0] : value);
    Json result = none_of(std::move(one));
    // Other values have what it says: they are not left.
    if (!has_type) result.set("type", Json::string(type));
    return result;
  }
  const Status left_out = reading_->leave_out(
      "the JSON schema at " + path +
      " is not supported: leave it out, and check the answer for it. A not may be of types, an "
      "enum, a const, a pattern, one required name, or an anyOf of these");
  if (!left_out.ok()) return left_out;
  return Json::boolean(true);
}

}  // namespace thimble
