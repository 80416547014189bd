#include "constraint/schema_compiler.h"

#include <algorithm>

namespace thimble {
namespace {

constexpr int kMaxNesting = 3;

}  // namespace

Result<Grammar::Node> SchemaCompiler::compile(const Json& schema, const std::string& path) {
  const bool is_arguments = layout_->arguments().has_value();
  const Result<Grammar::Node> root =
      node(schema, path, is_arguments ? Level::kArguments : Level::kValue);
  if (!root.ok()) return root;
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    const Result<Json> flat = merger_.flatten(next.schema, next.path);
    if (!flat.ok()) return flat.status();
    const Result<Grammar::Node> node = flat_node(*flat, next.path, next.level);
    if (!node.ok()) return node;
    grammar_->define(next.rule, *node);
  }
  return root;
}

Result<Grammar::Node> SchemaCompiler::node(const Json& schema, const std::string& path,
                                           Level level) {
  const Json* reference = schema.find("$ref");
  if (reference == nullptr && schema.find("allOf") == nullptr) {
    const Result<Json> flat = merger_.flatten(schema, path);
    return flat.ok() ? flat_node(*flat, path, level) : flat.status();
  }
  // A schema that is met again, perhaps within itself, is the same rule.
  const auto [place, is_new] =
      rules_.try_emplace(std::to_string(static_cast<int>(level)) + to_text(schema));
  if (is_new) {
    const Grammar::Rule rule = grammar_->add_rule("of the schema at " + path);
    place->second = grammar_->call(rule);
    pending_.push_back({rule, schema, path, level});
  }
  return place->second;
}

Result<Grammar::Node> SchemaCompiler::flat_node(const Json& schema, const std::string& path,
                                                Level level) {
  if (schema.is(Json::Kind::kFalse)) return grammar_->nothing();
  if (schema.is(Json::Kind::kTrue)) return anything(level);
  for (const char* key : {"anyOf", "oneOf"}) {
    if (schema.find(key) != nullptr) return choices(schema, key, path, level);
  }
  if (schema.find("enum") != nullptr || schema.find("const") != nullptr) {
    return enumeration(schema, path, level);
  }
  const auto types = meant_types(schema, path);
  if (!types.ok()) return types.status();
  const bool unconstrained = std::all_of(schema.keys.begin(), schema.keys.end(), is_annotation);
  if (unconstrained) return anything(level);
  std::vector<Grammar::Node> nodes;
  for (const std::string& type : *types) {
    if (level == Level::kArguments && type != "object") continue;
    const Result<Grammar::Node> node = of_type(type, schema, path, level);
    if (!node.ok()) return node;
    nodes.push_back(*node);
  }
  return grammar_->choice(std::move(nodes));
}

Result<Grammar::Node> SchemaCompiler::choices(const Json& schema, const std::string& key,
                                              const std::string& path, Level level) {
  const Json options = *schema.find(key);
  if (!options.is(Json::Kind::kArray))
    return error_at(path, "has " + key + " that is not an array");
  if (key == "oneOf") {
    reading_->note("the JSON schema's oneOf at " + path +
                   " is treated as anyOf: an answer may match several of its parts");
  }
  Json base = schema;
  base.remove(key);
  base = with_single_patterns(std::move(base));
  if (std::all_of(base.keys.begin(), base.keys.end(), is_annotation)) base = Json::boolean(true);
  std::vector<Grammar::Node> nodes;
  for (size_t i = 0; i < options.values.size(); ++i) {
    const std::string place = path + "/" + key + "/" + std::to_string(i);
    // Alone first: a fault in it is told at its own path, without the base.
    const Result<Json> alone = merger_.flatten(options.values[i], place);
    if (!alone.ok()) return alone.status();
    const Result<Grammar::Node> one = node(both(base, options.values[i]), place, level);
    if (!one.ok()) return one;
    nodes.push_back(*one);
  }
  return grammar_->choice(std::move(nodes));
}

Result<Grammar::Node> SchemaCompiler::enumeration(const Json& schema, const std::string& path,
                                                  Level level) {
  Json rest = schema;
  rest.remove("enum");
  rest.remove("const");
  const auto types = types_of(schema, path);
  if (!types.ok()) return types.status();
  rest = with_single_patterns(std::move(rest));
  const bool only_type = std::all_of(rest.keys.begin(), rest.keys.end(), [](const auto& key) {
    return key == "type" || is_annotation(key);
  });
  const Json *list = schema.find("enum"), *constant = schema.find("const");
  std::vector<Json> values;
  if (list != nullptr && !list->is(Json::Kind::kArray)) {
    return error_at(path, "has an enum that is not an array");
  }
  if (list != nullptr) values = list->values;
  if (constant != nullptr) {
    const std::string text = plain_text(*constant);
    const bool listed =
        list == nullptr || std::any_of(values.begin(), values.end(),
                                       [&](const Json& v) { return plain_text(v) == text; });
    values = listed ? std::vector<Json>{*constant} : std::vector<Json>{};
  }
  const Result<Json> flat = only_type ? Json::boolean(true) : merger_.flatten(rest, path);
  if (!flat.ok()) return flat.status();
  std::vector<std::string> texts;
  std::vector<Grammar::Node> nodes;
  for (const Json& value : values) {
    const std::string type = type_of(value);
    const auto has = [&types](const std::string& name) {
      return std::find(types->begin(), types->end(), name) != types->end();
    };
    if (!has(type) && !(type == "integer" && has("number"))) continue;
    if (!only_type) {
      const Result<bool> accepted = flat_holds(*flat, value, path, 0);
      if (!accepted.ok()) return accepted.status();
      if (!*accepted) continue;
    }
    if (level == Level::kArguments && type != "object") continue;
    if (value.is(Json::Kind::kArray) || value.is(Json::Kind::kObject)) {
      const auto name = layout_->unreadable_name(value, level == Level::kArguments);
      const Status left_out = name ? leave_out_name(*name, path) : Status();
      if (!left_out.ok()) return left_out;
      if (!name) nodes.push_back(exactly(value, level));
      continue;
    }
    // JSON's 1.0 is a whole number, which an integer is written as.
    const bool whole = type == "integer" && !has("number");
    for (std::string& text : scalar_texts(value, level)) {
      const std::string end = is_raw(level) ? layout_->arguments()->behind_value : "";
      if (end.empty() || (text + end).find(end) == text.size()) {
        texts.push_back(whole ? plain_text(value) : std::move(text));
        continue;
      }
      const Status left_out = reading_->leave_out(
          "the JSON schema at " + path + " has the string " + quoted_json(text).substr(0, 60) +
          ", which has the end of a value in the model's form of calls: leave it out");
      if (!left_out.ok()) return left_out;
    }
  }
  if (!texts.empty()) nodes.push_back(grammar_->literals(std::move(texts)));
  return grammar_->choice(std::move(nodes));
}

Result<std::optional<Program>> SchemaCompiler::program_of(const Json& schema,
                                                          const StringNotation& notation,
                                                          const std::string& path) {
  if (nesting_ == kMaxNesting) {
    return error_at(path, "has an enum beside other keywords, or propertyNames, within themselves");
  }
  Grammar grammar;
  JsonSpacing spacing;
  spacing.strings = spacing.names = notation;
  Result<JsonLayout> layout = JsonLayout::create(&grammar, spacing);
  if (!layout.ok()) return layout.status();
  SchemaCompiler compiler(document_, &grammar, &*layout, reading_, nesting_ + 1);
  const Result<Grammar::Node> node = compiler.compile(schema, path);
  if (!node.ok()) return node.status();
  Result<std::optional<Program>> program = compile_texts(grammar, *node);
  return program.ok() ? program : error_at(path, program.message());
}

Result<Grammar::Node> SchemaCompiler::of_type(const std::string& type, const Json& schema,
                                              const std::string& path, Level level) {
  if (type == "null") return scalars({Json()}, schema, level);
  if (type == "boolean") return scalars({Json::boolean(true), Json::boolean(false)}, schema, level);
  if (type == "string") return string(schema, path, level);
  const Json* excluded = schema.find("not");
  for (const Json& one : excluded ? excluded->find("anyOf")->values : std::vector<Json>()) {
    const Json* values = one.find("enum");
    const bool concerned =
        values != nullptr && type != "integer" &&
        std::any_of(values->values.begin(), values->values.end(), [&type](const Json& value) {
          const std::string own = type_of(value);
          return own == type || (own == "integer" && type == "number");
        });
    if (!concerned) continue;
    const Status left_out = reading_->leave_out(
        "the JSON schema at " + path + " has a not of " + to_text(*values).substr(0, 40) +
        ", but of values that are left out only strings, integers, booleans and null are "
        "supported: leave it out, and check the answer for it");
    if (!left_out.ok()) return left_out;
  }
  if (type == "array") return array(schema, path);
  if (type == "object") return object(schema, path, level);
  return number(schema, type == "integer", path);
}

Grammar::Node SchemaCompiler::scalars(const std::vector<Json>& values, const Json& schema,
                                      Level level) {
  std::vector<std::string> texts;
  const Json* excluded = schema.find("not");
  for (const Json& value : values) {
    bool is_left = true;
    for (const Json& one : excluded ? excluded->find("anyOf")->values : std::vector<Json>()) {
      const Json* listed = one.find("enum");
      if (listed == nullptr) continue;
      is_left =
          is_left && std::none_of(listed->values.begin(), listed->values.end(),
                                  [&](const Json& other) { return other.kind == value.kind; });
    }
    if (!is_left) continue;
    for (std::string& text : scalar_texts(value, level)) texts.push_back(std::move(text));
  }
  return texts.empty() ? grammar_->nothing() : grammar_->literals(std::move(texts));
}

std::vector<std::string> SchemaCompiler::scalar_texts(const Json& value, Level level) const {
  if (is_raw(level) && value.is(Json::Kind::kString)) return {value.text};
  std::vector<std::string> texts = layout_->scalar_texts(value);
  // The words of Python, which models write in such calls.
  const std::string word = level == Level::kArgument ? python_word(value) : "";
  if (!word.empty() && word != texts.back()) texts.push_back(word);
  return texts;
}

Grammar::Node SchemaCompiler::exactly(const Json& value, Level level) {
  if (level != Level::kArguments) return layout_->exactly(value);
  std::vector<JsonMember> members;
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const Json& one = value.values[i];
    const bool is_scalar = !one.is(Json::Kind::kArray) && !one.is(Json::Kind::kObject);
    members.push_back({grammar_->literal(value.keys[i]),
                       is_scalar ? grammar_->literals(scalar_texts(one, Level::kArgument))
                                 : layout_->exactly(one),
                       true});
  }
  return layout_->arguments(members, {}, {});
}

Result<Grammar::Node> SchemaCompiler::anything(Level level) {
  if (level == Level::kValue) return layout_->any();
  if (level == Level::kArguments) return object(Json::object(), "#", level);
  if (is_raw(level)) return string(Json::object(), "#", level);  // any text is one
  if (!any_argument_) {
    any_argument_ = grammar_->shared(
        grammar_->choice({layout_->any(), grammar_->literals({"True", "False", "None"})}));
  }
  return *any_argument_;
}

std::vector<JsonStrings*> SchemaCompiler::strings(Level level) {
  if (is_raw(level)) return {&layout_->raw()};
  std::vector<JsonStrings*> all = {&layout_->strings()};
  if (layout_->single_strings() != nullptr) all.push_back(layout_->single_strings());
  return all;
}

JsonStrings& SchemaCompiler::names(Level level) {
  return level == Level::kArguments ? layout_->argument_names() : layout_->names();
}

}  // namespace thimble
