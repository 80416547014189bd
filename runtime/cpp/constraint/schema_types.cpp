// What SchemaCompiler makes of each type's keywords.

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "constraint/decimal.h"
#include "constraint/formats.h"
#include "constraint/intersection.h"
#include "constraint/program.h"
#include "constraint/recognizer.h"
#include "constraint/regex.h"
#include "constraint/schema_compiler.h"

namespace thimble {
namespace {

constexpr uint64_t kMostStep = 1000;
constexpr size_t kMostDistinct = 10;
constexpr const char* kInteger = "-?(?:0|[1-9][0-9]*)";

Status error_at(const std::string& path, const std::string& what) {
  return Status::error("the JSON schema at " + path + " " + what);
}

/// The end of a range that two keywords tell. In draft 4 the exclusive one is a boolean.
Result<std::optional<Bound>> bound(const Json& schema, const char* key, const char* exclusive_key,
                                   bool is_minimum, const std::string& path) {
  std::optional<Bound> result;
  const Json* exclusive = schema.find(exclusive_key);
  for (const char* name : {key, exclusive_key}) {
    const Json* value = schema.find(name);
    if (value == nullptr || (name == exclusive_key && value->is_boolean())) continue;
    std::optional<Decimal> number;
    if (value->is(Json::Kind::kNumber)) number = parse_decimal(value->text);
    if (!number) {
      return error_at(path, std::string("has ") + name + " " + to_text(*value).substr(0, 40) +
                                ", but it must be a number of at most 400 digits");
    }
    const bool is_exclusive =
        name == exclusive_key || (exclusive != nullptr && exclusive->is(Json::Kind::kTrue));
    const int order = result ? compare(*number, result->value) : 0;
    const bool tighter = !result || order == 0 || (order > 0) == is_minimum;
    if (tighter) result = Bound{*number, is_exclusive};
  }
  return result;
}

/// The values of a list, each once: 1 and 1.0 are the same.
std::vector<Json> distinct(const Json& list) {
  std::vector<Json> found;
  for (const Json& value : list.values) {
    const auto same = [&value](const Json& other) {
      return plain_text(other) == plain_text(value);
    };
    if (std::none_of(found.begin(), found.end(), same)) found.push_back(value);
  }
  return found;
}

}  // namespace

Result<uint64_t> count_of(const Json& schema, const char* key, uint64_t otherwise,
                          const std::string& path) {
  const Json* value = schema.find(key);
  if (value == nullptr) return otherwise;
  std::optional<Decimal> number;
  if (value->is(Json::Kind::kNumber)) number = parse_decimal(value->text);
  const bool whole = number && !number->negative && number->fraction.empty();
  if (!whole || number->integer.size() > 15) {
    return error_at(path, std::string("has ") + key + " " + to_text(*value).substr(0, 40) +
                              ", but it must be a whole number of at most 15 digits");
  }
  return std::stoull(number->integer);
}

Result<Grammar::Node> SchemaCompiler::number(const Json& schema, bool integer,
                                             const std::string& path) {
  const auto min = bound(schema, "minimum", "exclusiveMinimum", true, path);
  if (!min.ok()) return min.status();
  const auto max = bound(schema, "maximum", "exclusiveMaximum", false, path);
  if (!max.ok()) return max.status();
  const Result<uint64_t> step = count_of(schema, "multipleOf", 0, path);
  if (!step.ok()) {
    return error_at(path, "has multipleOf " + to_text(*schema.find("multipleOf")).substr(0, 40) +
                              ", but it must be a whole number from 1 on");
  }
  if (*step > 0) return multiples(*step, *min, *max, path);
  if (schema.find("multipleOf") != nullptr) {
    return error_at(path, "has multipleOf 0, but it must be a whole number from 1 on");
  }
  if (!*min && !*max) return parse_regex(integer ? kInteger : kJsonNumber, grammar_);
  return decimal_range(grammar_, *min, *max, integer);
}

Result<Grammar::Node> SchemaCompiler::multiples(uint64_t step, const std::optional<Bound>& min,
                                                const std::optional<Bound>& max,
                                                const std::string& path) {
  if (step > kMostStep) {
    return error_at(path, "has multipleOf " + std::to_string(step) + ", but at most " +
                              std::to_string(kMostStep) + " is supported");
  }
  // A rule for each remainder of the digits so far.
  Grammar own;
  std::vector<Grammar::Rule> after;
  for (uint64_t rest = 0; rest < step; ++rest) after.push_back(own.add_rule("remainder"));
  const auto digits = [&](uint64_t rest, char first) {
    std::vector<Grammar::Node> choices;
    for (char digit = first; digit <= '9'; ++digit) {
      const uint64_t next = (rest * 10 + static_cast<uint64_t>(digit - '0')) % step;
      choices.push_back(
          own.sequence({own.literal(std::string_view(&digit, 1)), own.call(after[next])}));
    }
    return choices;
  };
  for (uint64_t rest = 0; rest < step; ++rest) {
    std::vector<Grammar::Node> choices = digits(rest, '0');
    if (rest == 0) choices.push_back(own.empty());
    own.define(after[rest], own.choice(std::move(choices)));
  }
  const Grammar::Node number =
      own.sequence({own.optional(own.literal("-")), own.choice(digits(0, '1'))});
  Result<Program> every = compile_program(own, own.choice({own.literal("0"), number}));
  if (!every.ok()) return every.status();
  std::vector<Program> programs;
  programs.push_back(std::move(*every));
  if (min || max) {
    Grammar range;
    Result<Program> inside = compile_program(range, decimal_range(&range, min, max, true));
    if (!inside.ok()) return grammar_->nothing();
    programs.push_back(std::move(*inside));
  }
  const Result<Grammar::Node> all = intersection(std::move(programs), grammar_);
  if (all.ok()) return all;
  return error_at(
      path, "joins multipleOf with bounds, which " + all.message() + ": leave one of them out");
}

Result<Grammar::Node> SchemaCompiler::string(const Json& schema, const std::string& path) {
  const Result<uint64_t> min = count_of(schema, "minLength", 0, path);
  const Result<uint64_t> max = count_of(schema, "maxLength", Grammar::kUnlimited, path);
  for (const Result<uint64_t>* length : {&min, &max}) {
    if (!length->ok()) return length->status();
  }
  std::vector<StringPart> regexes;
  if (const Json* patterns = schema.find("pattern")) {
    for (const Json& pattern : patterns->values) regexes.emplace_back(pattern.text, false);
  }
  if (const Json* format = schema.find("format")) {
    const std::optional<std::string_view> regex = format_regex(format->text);
    if (!format->is(Json::Kind::kString)) {
      return error_at(path, "has a format that is not a string");
    }
    if (regex) regexes.emplace_back(*regex, true);
    if (!regex && !is_free_format(format->text) && notes_ != nullptr) {
      notes_->push_back("the JSON schema's format " + quoted_json(format->text).substr(0, 40) +
                        " at " + path + " is not enforced: only " + format_names() + " are");
    }
  }
  const bool bounded = *min > 0 || *max != Grammar::kUnlimited;
  if (regexes.empty()) return layout_->strings().of_length(*min, *max);
  if (regexes.size() == 1 && !bounded) {
    const auto& [regex, whole] = regexes[0];
    const Result<Grammar::Node> node = layout_->strings().matching(regex, whole);
    if (!node.ok()) return error_at(path, "has a pattern that is not supported: " + node.message());
    return grammar_->shared(*node);
  }
  const Result<CountedText::Shared> lengths = lengths_of(regexes, path);
  if (!lengths.ok()) return lengths.status();
  if (*lengths == nullptr) return grammar_->nothing();
  return layout_->strings().quoted(
      grammar_->counted_text(std::make_shared<CountedText>(*lengths, *min, *max)));
}

Result<CountedText::Shared> SchemaCompiler::lengths_of(const std::vector<StringPart>& parts,
                                                       const std::string& path) {
  std::string key;
  for (const auto& [regex, whole] : parts) key += quoted_json(regex) + (whole ? "1" : "0");
  const auto [place, is_new] = lengths_.try_emplace(key);
  if (!is_new) return place->second;
  std::vector<AutomatonPart> programs;
  for (size_t i = 0; i <= parts.size(); ++i) {
    Grammar grammar;
    JsonStrings strings(&grammar, layout_->strings().notation());
    const Result<Grammar::Node> node = i == parts.size()
                                           ? strings.any_content()
                                           : strings.content(parts[i].first, parts[i].second);
    if (!node.ok()) return error_at(path, "has a pattern that is not supported: " + node.message());
    Result<std::optional<Program>> program = compile_texts(grammar, *node);
    if (!program.ok()) return error_at(path, program.message());
    if (!program->has_value()) return CountedText::Shared();
    programs.push_back({std::move(**program), false});
  }
  Program characters = std::move(programs.back().program);
  programs.pop_back();
  Result<CountedText::Shared> lengths =
      CountedText::lengths(std::move(programs), std::move(characters));
  if (!lengths.ok()) {
    return error_at(path, "joins pattern, format or lengths of a string, which " +
                              lengths.message() + ": write them as one pattern");
  }
  return place->second = std::move(*lengths);
}

Result<Grammar::Node> SchemaCompiler::array(const Json& schema, const std::string& path) {
  const Result<uint64_t> min = count_of(schema, "minItems", 0, path);
  const Result<uint64_t> max = count_of(schema, "maxItems", Grammar::kUnlimited, path);
  for (const Result<uint64_t>* length : {&min, &max}) {
    if (!length->ok()) return length->status();
  }
  const bool distinct = schema.find("uniqueItems") != nullptr && *max > 1;
  if (distinct) return distinct_items(schema, *min, *max, path);
  // Before draft 2020-12 the first items were called items, and the others additionalItems.
  const Json* items = schema.find("items");
  const Json* first = schema.find("prefixItems");
  const char *first_key = "prefixItems", *more_key = "items";
  if (items != nullptr && items->is(Json::Kind::kArray)) {
    first = items;
    first_key = "items";
    more_key = "additionalItems";
    items = schema.find("additionalItems");
  }
  std::vector<Grammar::Node> nodes;
  if (first != nullptr && !first->is(Json::Kind::kArray)) {
    return error_at(path, "has prefixItems that are not an array");
  }
  for (size_t i = 0; first != nullptr && i < first->values.size(); ++i) {
    const Result<Grammar::Node> one =
        node(first->values[i], path + "/" + first_key + "/" + std::to_string(i));
    if (!one.ok()) return one;
    nodes.push_back(*one);
  }
  const Json anything = Json::boolean(true);
  const Result<Grammar::Node> more =
      node(items != nullptr ? *items : anything, path + "/" + more_key);
  if (!more.ok()) return more;
  return layout_->array(nodes, *more, *min, *max);
}

Result<Grammar::Node> SchemaCompiler::distinct_items(const Json& schema, uint64_t min, uint64_t max,
                                                     const std::string& path) {
  const Json* items = schema.find("items");
  Result<Json> flat = Json::boolean(true);
  if (items != nullptr && schema.find("prefixItems") == nullptr && !items->is(Json::Kind::kArray)) {
    flat = merger_.flatten(*items, path + "/items");
    if (!flat.ok()) return flat.status();
  }
  const Json* values = flat->find("enum");
  const std::vector<Json> listed = values == nullptr ? std::vector<Json>() : distinct(*values);
  if (values == nullptr || listed.size() > kMostDistinct) {
    return error_at(path, "has uniqueItems, which is supported for items of an enum of at most " +
                              std::to_string(kMostDistinct) +
                              " values alone: leave it out, and check the answer for it");
  }
  std::vector<Grammar::Node> nodes;
  for (const Json& value : listed) {
    flat->set("enum", Json::array({value}));
    const Result<Grammar::Node> one = enumeration(*flat, path + "/items");
    if (!one.ok()) return one;
    if (*one != grammar_->nothing()) nodes.push_back(*one);
  }
  return layout_->distinct(std::move(nodes), min, max);
}

Result<Grammar::Node> SchemaCompiler::object(const Json& schema, const std::string& path) {
  const Json *properties = schema.find("properties"), *required = schema.find("required");
  const Json* additional = schema.find("additionalProperties");
  const Json none = Json::object(), anything = Json::boolean(true), nothing = Json::boolean(false);
  // Authors who list properties mean these: a model that may add others goes on adding.
  const bool closed = additional == nullptr && properties != nullptr &&
                      schema.find("unevaluatedProperties") == nullptr;
  if (properties == nullptr) properties = &none;
  if (additional == nullptr) additional = closed ? &nothing : &anything;
  if (!properties->is(Json::Kind::kObject)) {
    return error_at(path, "has properties that are not an object");
  }
  std::vector<std::string> names = properties->keys, needed;
  std::unordered_set<std::string> known(names.begin(), names.end());
  if (required != nullptr && !required->is(Json::Kind::kArray)) {
    if (!required->is_boolean()) return error_at(path, "has required that is not an array");
    required = nullptr;  // draft 3 told it within the property
  }
  for (size_t i = 0; required != nullptr && i < required->values.size(); ++i) {
    const Json& name = required->values[i];
    if (!name.is(Json::Kind::kString))
      return error_at(path, "requires a name that is not a string");
    needed.push_back(name.text);
    if (known.insert(name.text).second) names.push_back(name.text);
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  const Result<uint64_t> least = count_of(schema, "minProperties", 0, path);
  if (!least.ok()) return least.status();
  if (*least > std::max<size_t>(needed.size(), 1)) {
    return error_at(path, "has minProperties " + std::to_string(*least) + ", but beyond the " +
                              std::to_string(needed.size()) +
                              " required ones only 1 is supported: require more by name");
  }
  const bool not_empty = *least > 0;
  const Result<std::optional<Program>> allowed_names = names_of(schema, path);
  if (!allowed_names.ok()) return allowed_names.status();
  std::optional<Recognizer> name_check;
  if (*allowed_names) name_check.emplace(**allowed_names);

  const Result<Grammar::Node> more = node(*additional, path + "/additionalProperties");
  if (!more.ok()) return more;
  const Grammar::Node unlisted = closed ? layout_->any() : *more;  // if it is required
  std::vector<JsonMember> members;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const bool listed = i < properties->keys.size();
    const Result<Grammar::Node> value =
        listed ? node(properties->values[i], path + "/properties/" + name) : unlisted;
    if (!value.ok()) return value;
    const bool is_needed = std::binary_search(needed.begin(), needed.end(), name);
    if (name_check && !name_check->matches(layout_->names().notation().write(name))) {
      if (is_needed) return grammar_->nothing();
      continue;
    }
    members.push_back(
        {grammar_->literal(layout_->names().notation().write(name)), *value, is_needed});
  }
  if (*more == grammar_->nothing()) return layout_->object(members, std::nullopt, not_empty);
  const Result<Grammar::Node> others = other_names(names, *allowed_names, path);
  if (!others.ok()) return others;
  if (*others == grammar_->nothing()) return layout_->object(members, std::nullopt, not_empty);
  return layout_->object(members, JsonMember{*others, *more, false}, not_empty);
}

Result<std::optional<Program>> SchemaCompiler::names_of(const Json& schema,
                                                        const std::string& path) {
  const Json* names = schema.find("propertyNames");
  if (names == nullptr) return std::optional<Program>();
  // Values that are no strings are no names: other_names() has strings alone.
  Result<std::optional<Program>> program =
      program_of(*names, layout_->names().notation(), path + "/propertyNames");
  if (!program.ok()) return program.status();
  if (*program) return program;
  Grammar none;
  const Grammar::Node zero = none.byte(ByteSet{}.set(0));  // with which no string begins
  return std::optional<Program>(std::move(*compile_program(none, zero)));
}

Result<Grammar::Node> SchemaCompiler::other_names(const std::vector<std::string>& listed,
                                                  const std::optional<Program>& allowed,
                                                  const std::string& path) {
  Grammar grammar;
  JsonStrings strings(&grammar, layout_->names().notation());
  const Result<Grammar::Node> node =
      allowed ? strings.except(listed) : layout_->other_names(listed);
  if (!node.ok()) return error_at(path, "cannot be used: " + node.message());
  if (!allowed) return node;
  Result<Program> unlisted = compile_program(grammar, *node);
  if (!unlisted.ok()) return unlisted.status();
  const Result<Grammar::Node> all = intersection({*allowed, std::move(*unlisted)}, grammar_);
  if (all.ok()) return all;
  return error_at(path + "/propertyNames", "with the names of properties " + all.message() +
                                               ": allow fewer or shorter names");
}

}  // namespace thimble
