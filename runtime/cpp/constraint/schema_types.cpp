// What SchemaCompiler makes of the keywords of numbers and arrays.

#include <algorithm>
#include <optional>
#include <utility>

#include "constraint/decimal.h"
#include "constraint/intersection.h"
#include "constraint/program.h"
#include "constraint/regex.h"
#include "constraint/schema_compiler.h"

namespace thimble {
namespace {

constexpr uint64_t kMostStep = 1000;  // of multipleOf, as a whole number
constexpr size_t kMostPlaces = 6;     // that it may have behind the point
constexpr size_t kMostDistinct = 10;
constexpr const char* kInteger = "-?(?:0|[1-9][0-9]*)";

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

/// The integers that a schema's "not" leaves out.
std::vector<std::string> excluded_integers(const Json& schema) {
  std::vector<std::string> texts;
  const Json* excluded = schema.find("not");
  for (const Json& one : excluded ? excluded->find("anyOf")->values : std::vector<Json>()) {
    const Json* values = one.find("enum");
    for (const Json& value : values ? values->values : std::vector<Json>()) {
      if (type_of(value) != "integer") continue;
      texts.push_back(plain_text(value));
      if (texts.back() == "0") texts.emplace_back("-0");
    }
  }
  return texts;
}

/// What numbers are multiples of: `whole` divided by ten to the power of `places`. None if it is
/// not above zero, or too large.
std::optional<Multiple> step_of(const Json& value) {
  if (!value.is(Json::Kind::kNumber)) return std::nullopt;
  const std::optional<Decimal> number = parse_decimal(value.text);
  if (!number || number->negative || number->is_zero()) return std::nullopt;
  const std::string all = number->integer + number->fraction;
  const std::string digits = all.substr(all.find_first_not_of('0'));
  if (digits.size() > 4 || number->fraction.size() > kMostPlaces) return std::nullopt;
  const Multiple step{std::stoull(digits), number->fraction.size()};
  return step.whole <= kMostStep ? std::optional<Multiple>(step) : std::nullopt;
}

/// The values of a list, each once: 1 and 1.0 are the same.
std::vector<Json> distinct(const Json& list) {
  std::vector<Json> values;
  for (const Json& value : list.values) {
    const auto same = [&value](const Json& other) {
      return plain_text(other) == plain_text(value);
    };
    if (std::none_of(values.begin(), values.end(), same)) values.push_back(value);
  }
  return values;
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
  const Json* step = schema.find("multipleOf");
  if (step != nullptr) {
    const std::optional<Multiple> given = step_of(*step);
    if (given) return multiples(*given, *min, *max, integer, path);
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path + " has multipleOf " + to_text(*step).substr(0, 40) +
        ", but only whole numbers from 1 to " + std::to_string(kMostStep) +
        ", and these divided by up to 10^" + std::to_string(kMostPlaces) + ", are supported");
    if (!left_out.ok()) return left_out;
  }
  const auto plain = [&](Grammar* grammar) -> Result<Grammar::Node> {
    if (!*min && !*max) return parse_regex(integer ? kInteger : kJsonNumber, grammar);
    return decimal_range(grammar, *min, *max, integer);
  };
  const std::vector<std::string> excluded = excluded_integers(schema);
  if (!integer || excluded.empty()) return plain(grammar_);
  Grammar own, others;
  const Result<Grammar::Node> all = plain(&own);
  if (!all.ok()) return all;
  Result<std::optional<Program>> texts = compile_texts(own, *all);
  if (!texts.ok()) return error_at(path, texts.message());
  if (!texts->has_value()) return grammar_->nothing();
  Result<Program> none = compile_program(others, others.literals(excluded));
  if (!none.ok()) return none.status();
  std::vector<AutomatonPart> parts;
  parts.push_back({std::move(**texts), false});
  parts.push_back({std::move(*none), true});
  const Result<Grammar::Node> left = difference(std::move(parts), grammar_);
  return left.ok() ? left : error_at(path, "has bounds beside a not, which " + left.message());
}

Result<Grammar::Node> SchemaCompiler::multiples(Multiple step, const std::optional<Bound>& min,
                                                const std::optional<Bound>& max, bool integer,
                                                const std::string& path) {
  // A rule for each remainder of the digits so far, and for the number of those behind the point.
  const size_t places = integer ? 0 : step.places;
  Grammar own;
  std::vector<std::vector<Grammar::Rule>> after(places + 1);
  for (std::vector<Grammar::Rule>& rules : after) {
    for (uint64_t rest = 0; rest < step.whole; ++rest) rules.push_back(own.add_rule("remainder"));
  }
  const auto digits = [&](uint64_t rest, size_t place, char first) {
    std::vector<Grammar::Node> choices;
    for (char digit = first; digit <= '9'; ++digit) {
      const uint64_t next = (rest * 10 + static_cast<uint64_t>(digit - '0')) % step.whole;
      choices.push_back(
          own.sequence({own.literal(std::string_view(&digit, 1)), own.call(after[place][next])}));
    }
    return choices;
  };
  for (size_t place = 0; place <= places; ++place) {
    for (uint64_t rest = 0; rest < step.whole; ++rest) {
      std::vector<Grammar::Node> choices;
      if (place == 0) choices = digits(rest, 0, '0');
      if (place < places) {
        Grammar::Node more = own.choice(digits(rest, place + 1, '0'));
        choices.push_back(place == 0 ? own.sequence({own.literal("."), more}) : more);
      }
      uint64_t whole = rest;  // of all places, should the others be zeros
      for (size_t left = place; left < step.places; ++left) whole = whole * 10 % step.whole;
      if (whole == 0) choices.push_back(own.empty());
      own.define(after[place][rest], own.choice(std::move(choices)));
    }
  }
  std::vector<Grammar::Node> magnitudes = digits(0, 0, '1');
  if (places > 0) {
    magnitudes.push_back(own.sequence({own.literal("0."), own.choice(digits(0, 1, '0'))}));
  }
  const Grammar::Node number =
      own.sequence({own.optional(own.literal("-")), own.choice(std::move(magnitudes))});
  Result<Program> every = compile_program(own, own.choice({own.literal("0"), number}));
  if (!every.ok()) return every.status();
  std::vector<Program> programs;
  programs.push_back(std::move(*every));
  if (min || max) {
    Grammar range;
    Result<Program> inside =
        compile_program(range, decimal_range(&range, min, max, integer || places == 0));
    if (!inside.ok()) return grammar_->nothing();
    programs.push_back(std::move(*inside));
  }
  const Result<Grammar::Node> all = intersection(std::move(programs), grammar_);
  if (all.ok()) return all;
  return error_at(
      path, "joins multipleOf with bounds, which " + all.message() + ": leave one of them out");
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
  if (items == nullptr) items = schema.find("unevaluatedItems");
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
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path + " has uniqueItems, but no items of an enum of at most " +
        std::to_string(kMostDistinct) + " values: leave it out, and check the answer");
    if (!left_out.ok()) return left_out;
    Json repeated = schema;
    repeated.remove("uniqueItems");
    return array(repeated, path);
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

}  // namespace thimble
