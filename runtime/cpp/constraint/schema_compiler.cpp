#include "constraint/schema_compiler.h"

#include <algorithm>

namespace thimble {
namespace {

constexpr int kMaxNesting = 3;

Status error_at(const std::string& path, const std::string& what) {
  return Status::error("the JSON schema at " + path + " " + what);
}

}  // namespace

Result<Grammar::Node> SchemaCompiler::compile(const Json& schema, const std::string& path) {
  const Result<Grammar::Node> root = node(schema, path);
  if (!root.ok()) return root;
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    const Result<Json> flat = merger_.flatten(next.schema, next.path);
    if (!flat.ok()) return flat.status();
    const Result<Grammar::Node> node = flat_node(*flat, next.path);
    if (!node.ok()) return node;
    grammar_->define(next.rule, *node);
  }
  return root;
}

Result<Grammar::Node> SchemaCompiler::node(const Json& schema, const std::string& path) {
  const Json* reference = schema.find("$ref");
  if (reference == nullptr && schema.find("allOf") == nullptr) {
    const Result<Json> flat = merger_.flatten(schema, path);
    return flat.ok() ? flat_node(*flat, path) : flat.status();
  }
  // A schema that is met again, perhaps within itself, is the same rule.
  const auto [place, is_new] = rules_.try_emplace(to_text(schema));
  if (is_new) {
    const Grammar::Rule rule = grammar_->add_rule("of the schema at " + path);
    place->second = grammar_->call(rule);
    pending_.push_back({rule, schema, path});
  }
  return place->second;
}

Result<Grammar::Node> SchemaCompiler::flat_node(const Json& schema, const std::string& path) {
  if (schema.is(Json::Kind::kFalse)) return grammar_->nothing();
  if (schema.is(Json::Kind::kTrue)) return layout_->any();
  for (const char* key : {"anyOf", "oneOf"}) {
    if (schema.find(key) != nullptr) return choices(schema, key, path);
  }
  if (schema.find("enum") != nullptr || schema.find("const") != nullptr) {
    return enumeration(schema, path);
  }
  const auto types = types_of(schema, path);
  if (!types.ok()) return types.status();
  const bool unconstrained = std::all_of(schema.keys.begin(), schema.keys.end(), is_annotation);
  if (unconstrained) return layout_->any();
  std::vector<Grammar::Node> nodes;
  for (const std::string& type : *types) {
    const Result<Grammar::Node> node = of_type(type, schema, path);
    if (!node.ok()) return node;
    nodes.push_back(*node);
  }
  return grammar_->choice(std::move(nodes));
}

Result<Grammar::Node> SchemaCompiler::choices(const Json& schema, const std::string& key,
                                              const std::string& path) {
  const Json options = *schema.find(key);
  if (!options.is(Json::Kind::kArray))
    return error_at(path, "has " + key + " that is not an array");
  if (key == "oneOf" && notes_ != nullptr) {
    notes_->push_back("the JSON schema's oneOf at " + path +
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
    const Result<Grammar::Node> one = node(both(base, options.values[i]), place);
    if (!one.ok()) return one;
    nodes.push_back(*one);
  }
  return grammar_->choice(std::move(nodes));
}

Result<Grammar::Node> SchemaCompiler::enumeration(const Json& schema, const std::string& path) {
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
    if (value.is(Json::Kind::kArray) || value.is(Json::Kind::kObject)) {
      nodes.push_back(layout_->exactly(value));
    } else {
      // JSON's 1.0 is a whole number, which an integer is written as.
      const bool whole = type == "integer" && !has("number");
      texts.push_back(whole ? plain_text(value) : layout_->scalar(value));
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
  SchemaCompiler compiler(document_, &grammar, &*layout, nullptr, nesting_ + 1);
  const Result<Grammar::Node> node = compiler.compile(schema, path);
  if (!node.ok()) return node.status();
  Result<std::optional<Program>> program = compile_texts(grammar, *node);
  return program.ok() ? program : error_at(path, program.message());
}

Result<Grammar::Node> SchemaCompiler::of_type(const std::string& type, const Json& schema,
                                              const std::string& path) {
  if (type == "null") return grammar_->literal("null");
  if (type == "boolean") return layout_->any_boolean();
  if (type == "string") return string(schema, path);
  if (type == "array") return array(schema, path);
  if (type == "object") return object(schema, path);
  return number(schema, type == "integer", path);
}

}  // namespace thimble
