// What SchemaCompiler makes of the keywords of objects.

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "constraint/intersection.h"
#include "constraint/program.h"
#include "constraint/recognizer.h"
#include "constraint/schema_compiler.h"

namespace thimble {
namespace {

constexpr size_t kMostPatterns = 4;
constexpr uint64_t kMostCounted = 1000;  // properties that are counted one by one

/// The names that a schema lists, in the order in which they are written.
Result<std::vector<std::string>> ordered_names(const Json& schema, const Json& properties,
                                               const std::vector<std::string>& required,
                                               const std::string& path) {
  std::vector<std::string> names;
  std::unordered_set<std::string> known;
  const Json* order = schema.find("propertyOrdering");
  if (order != nullptr && !order->is(Json::Kind::kArray)) {
    return error_at(path, "has a propertyOrdering that is not an array");
  }
  for (size_t i = 0; order != nullptr && i < order->values.size(); ++i) {
    const std::string& name = order->values[i].text;
    if (properties.find(name) != nullptr && known.insert(name).second) names.push_back(name);
  }
  for (const std::vector<std::string>* list : {&properties.keys, &required}) {
    for (const std::string& name : *list) {
      if (known.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

Result<std::vector<std::string>> required_names(const Json& schema, const std::string& path) {
  std::vector<std::string> names;
  const Json* required = schema.find("required");
  // Draft 3 told it within the property, by a boolean.
  if (required == nullptr || required->is_boolean()) return names;
  if (!required->is(Json::Kind::kArray)) {
    return error_at(path, "has required that is not an array");
  }
  for (const Json& name : required->values) {
    if (!name.is(Json::Kind::kString))
      return error_at(path, "requires a name that is not a string");
    names.push_back(name.text);
  }
  return names;
}

/// The names that a schema's "not" forbids.
std::vector<std::string> forbidden_names(const Json& schema) {
  std::vector<std::string> names;
  const Json* excluded = schema.find("not");
  for (const Json& one : excluded ? excluded->find("anyOf")->values : std::vector<Json>()) {
    const Json* required = one.find("required");
    if (required != nullptr) names.push_back(required->values[0].text);
  }
  return names;
}

}  // namespace

Result<Grammar::Node> SchemaCompiler::object(const Json& schema, const std::string& path,
                                             Level level) {
  const Json none = Json::object(), anything = Json::boolean(true), nothing = Json::boolean(false);
  const Json *properties = schema.find("properties"),
             *additional = schema.find("additionalProperties");
  if (additional == nullptr) additional = schema.find("unevaluatedProperties");
  const Result<std::vector<PatternProperty>> patterns = pattern_properties(schema, path, level);
  if (!patterns.ok()) return patterns.status();
  // Authors who list properties mean these: a model that may add others goes on adding.
  const bool closed =
      additional == nullptr && properties != nullptr && schema.find("patternProperties") == nullptr;
  if (properties == nullptr) properties = &none;
  if (additional == nullptr) additional = closed ? &nothing : &anything;
  if (!properties->is(Json::Kind::kObject)) {
    return error_at(path, "has properties that are not an object");
  }
  const Result<std::vector<std::string>> needed = required_names(schema, path);
  if (!needed.ok()) return needed.status();
  const Result<std::vector<std::string>> names = ordered_names(schema, *properties, *needed, path);
  if (!names.ok()) return names.status();
  const Result<uint64_t> least = count_of(schema, "minProperties", 0, path);
  const Result<uint64_t> most = count_of(schema, "maxProperties", Grammar::kUnlimited, path);
  for (const Result<uint64_t>* count : {&least, &most}) {
    if (!count->ok()) return count->status();
  }
  Count count = {*least, *most};
  const uint64_t counted = std::max(count.min, count.max == Grammar::kUnlimited ? 0 : count.max);
  if (counted * std::max<size_t>(names->size(), 1) > kMostCounted * 10 || counted > kMostCounted) {
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path + " has minProperties or maxProperties of " +
        std::to_string(counted) + ", which is too many to be counted: leave it out");
    if (!left_out.ok()) return left_out;
    count = {};
  }
  const Result<std::optional<Program>> allowed_names = names_of(schema, path, level);
  if (!allowed_names.ok()) return allowed_names.status();
  std::optional<Recognizer> name_check;
  if (*allowed_names) name_check.emplace(**allowed_names);
  std::vector<Recognizer> pattern_checks;
  for (const PatternProperty& pattern : *patterns) pattern_checks.emplace_back(pattern.names);

  const Level inside = level == Level::kArguments ? Level::kArgument : Level::kValue;
  const std::vector<std::string> forbidden = forbidden_names(schema);
  const std::unordered_set<std::string> required(needed->begin(), needed->end()),
      unwanted(forbidden.begin(), forbidden.end());
  std::vector<JsonMember> members;
  for (const std::string& name : *names) {
    const std::string written = names_written(name, level);
    const Json* listed = properties->find(name);
    // One that must come is of any value where the schema says of no other names that they may.
    Json value = listed != nullptr ? *listed : closed ? anything : *additional;
    bool has_pattern = false;
    for (size_t i = 0; i < patterns->size(); ++i) {
      if (!pattern_checks[i].matches(written)) continue;
      const bool first = listed == nullptr && !has_pattern;
      value = first ? (*patterns)[i].value : both(value, (*patterns)[i].value);
      has_pattern = true;
    }
    const bool is_needed = required.count(name) > 0;
    if (unwanted.count(name) > 0 || (name_check && !name_check->matches(written))) {
      if (is_needed) return grammar_->nothing();
      continue;
    }
    if (!layout_->can_read_name(name, level == Level::kArguments)) {
      const Status left_out = leave_out_name(name, path);
      if (!left_out.ok()) return left_out;
      continue;
    }
    const Result<Grammar::Node> node = this->node(value, path + "/properties/" + name, inside);
    if (!node.ok()) return node;
    members.push_back({name_node(name, level), *node, is_needed});
  }
  std::vector<std::string> known = *names;
  known.insert(known.end(), forbidden.begin(), forbidden.end());
  const Result<std::vector<JsonMember>> more =
      other_members(known, *allowed_names, *patterns, *additional, path, level);
  if (!more.ok()) return more.status();
  return level == Level::kArguments ? layout_->arguments(members, *more, count)
                                    : layout_->object(members, *more, count);
}

Status SchemaCompiler::leave_out_name(const std::string& name, const std::string& path) {
  return reading_->leave_out("the JSON schema at " + path + " has the name " +
                             quoted_json(name).substr(0, 60) +
                             ", whose end is not clear in the model's form of calls: change it");
}

std::string SchemaCompiler::names_written(const std::string& name, Level level) {
  return names(level).notation().write(name);
}

Grammar::Node SchemaCompiler::name_node(const std::string& name, Level level) {
  return level == Level::kArguments ? grammar_->literal(names_written(name, level))
                                    : grammar_->literals(layout_->name_texts(name));
}

Result<std::optional<Program>> SchemaCompiler::names_of(const Json& schema, const std::string& path,
                                                        Level level) {
  const Json* allowed = schema.find("propertyNames");
  if (allowed == nullptr) return std::optional<Program>();
  // Without quotes, values that are no strings would look like names.
  Json string = Json::object();
  string.set("type", Json::string("string"));
  Json named = both(*allowed, string);
  if (allowed->is(Json::Kind::kObject) && allowed->find("type") == nullptr) {
    named = *allowed;  // at its own place, which errors name
    named.set("type", Json::string("string"));
  }
  Result<std::optional<Program>> program =
      program_of(named, names(level).notation(), path + "/propertyNames");
  if (!program.ok()) return program.status();
  if (*program) return program;
  Grammar none;
  const Grammar::Node zero = none.byte(ByteSet{}.set(0));  // with which no string begins
  return std::optional<Program>(std::move(*compile_program(none, zero)));
}

Result<std::vector<SchemaCompiler::PatternProperty>> SchemaCompiler::pattern_properties(
    const Json& schema, const std::string& path, Level level) {
  std::vector<PatternProperty> compiled;
  const Json* patterns = schema.find("patternProperties");
  if (patterns == nullptr) return compiled;
  if (!patterns->is(Json::Kind::kObject)) {
    return error_at(path, "has patternProperties that are not an object");
  }
  if (patterns->keys.size() > kMostPatterns) {
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path + " has " + std::to_string(patterns->keys.size()) +
        " patternProperties, but at most " + std::to_string(kMostPatterns) + " are supported");
    if (!left_out.ok()) return left_out;
    return compiled;
  }
  for (size_t i = 0; i < patterns->keys.size(); ++i) {
    Json name = Json::object();
    name.set("type", Json::string("string"));
    name.set("pattern", Json::string(patterns->keys[i]));
    Result<std::optional<Program>> program =
        program_of(name, names(level).notation(), path + "/patternProperties");
    if (!program.ok()) return program.status();
    if (*program) compiled.push_back({std::move(**program), patterns->values[i]});
  }
  return compiled;
}

Result<std::vector<JsonMember>> SchemaCompiler::other_members(
    const std::vector<std::string>& listed, const std::optional<Program>& allowed,
    const std::vector<PatternProperty>& patterns, const Json& additional, const std::string& path,
    Level level) {
  std::vector<JsonMember> members;
  std::vector<std::string> unlisted = listed;
  for (const std::string& name : names(level).nameless()) unlisted.push_back(name);
  // For each set of patterns, the names that match these and no other.
  for (size_t set = 0; set < size_t{1} << patterns.size(); ++set) {
    Json value = set == 0 ? additional : Json::boolean(true);
    for (size_t i = 0; i < patterns.size(); ++i) {
      if ((set >> i & 1) != 0) value = both(value, patterns[i].value);
    }
    const Level inside = level == Level::kArguments ? Level::kArgument : Level::kValue;
    const std::string place = path + (set == 0 ? "/additionalProperties" : "/patternProperties");
    const Result<Grammar::Node> node = this->node(value, place, inside);
    if (!node.ok()) return node.status();
    if (*node == grammar_->nothing()) continue;
    Result<Grammar::Node> name = names(level).except(unlisted);
    if (name.ok() && (allowed || !patterns.empty())) {
      Grammar grammar;
      JsonStrings strings(&grammar, names(level).notation());
      Result<Program> others = compile_program(grammar, *strings.except(unlisted));
      if (!others.ok()) return others.status();
      std::vector<AutomatonPart> parts;
      parts.push_back({std::move(*others), false});
      if (allowed) parts.push_back({*allowed, false});
      for (size_t i = 0; i < patterns.size(); ++i) {
        parts.push_back({patterns[i].names, (set >> i & 1) == 0});
      }
      name = difference(std::move(parts), grammar_);
      if (!name.ok()) {
        return error_at(path,
                        "has patternProperties or propertyNames that beside the names of "
                        "properties " +
                            name.message() + ": allow fewer or shorter names");
      }
    }
    if (!name.ok()) return error_at(path, "cannot be used: " + name.message());
    if (*name != grammar_->nothing()) members.push_back({*name, *node, false});
    const bool free = !allowed && patterns.empty() && level != Level::kArguments;
    if (free && layout_->single_names() != nullptr) {
      const Result<Grammar::Node> single = layout_->single_names()->except(unlisted);
      if (!single.ok()) return error_at(path, "cannot be used: " + single.message());
      members.push_back({*single, *node, false});
    }
  }
  return members;
}

}  // namespace thimble
