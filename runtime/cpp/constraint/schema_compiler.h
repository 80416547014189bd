#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "constraint/counted_text.h"
#include "constraint/decimal.h"
#include "constraint/grammar.h"
#include "constraint/json.h"
#include "constraint/json_layout.h"
#include "constraint/program.h"
#include "constraint/recognizer.h"
#include "constraint/schema_merge.h"
#include "constraint/schema_reading.h"
#include "core/status.h"

namespace thimble {

/// A schema that SchemaMerger has made as one that it takes, with one pattern in each part.
Json with_single_patterns(Json schema);

/// What multipleOf says: `whole` divided by ten to the power of `places`.
struct Multiple {
  uint64_t whole;
  size_t places;
};

/// A keyword's whole number; `otherwise` if the schema lacks it.
Result<uint64_t> count_of(const Json& schema, const char* key, uint64_t otherwise,
                          const std::string& path);

/// Compiles the schemas of one document to a grammar. References become rules, so that schemas may
/// be recursive.
class SchemaCompiler {
 public:
  /// Where a value stands: how it is written depends on it, if the layout has arguments.
  enum class Level { kValue, kArguments, kArgument };

  /// The document, the layout and the reading must outlive it. `nesting`: of documents whose
  /// enumerations are checked by compilers of their own.
  SchemaCompiler(const Json& document, Grammar* grammar, JsonLayout* layout, SchemaReading* reading,
                 int nesting = 0)
      : document_(document),
        merger_(document, reading),
        grammar_(grammar),
        layout_(layout),
        reading_(reading),
        nesting_(nesting) {}

  /// The values of a schema, with all rules that they need. `path`: for messages.
  Result<Grammar::Node> compile(const Json& schema, const std::string& path = "#");

 private:
  struct Pending {
    Grammar::Rule rule;
    Json schema;
    std::string path;
    Level level;
  };

  Result<Grammar::Node> node(const Json& schema, const std::string& path,
                             Level level = Level::kValue);
  Result<Grammar::Node> flat_node(const Json& schema, const std::string& path, Level level);
  Result<Grammar::Node> choices(const Json& schema, const std::string& key, const std::string& path,
                                Level level);
  Result<Grammar::Node> enumeration(const Json& schema, const std::string& path,
                                    Level level = Level::kValue);
  /// Any value.
  Result<Grammar::Node> anything(Level level);
  Grammar::Node exactly(const Json& value, Level level);
  /// The texts that stand for a value that is neither array nor object.
  std::vector<std::string> scalar_texts(const Json& value, Level level) const;
  /// The ways in which strings are written.
  std::vector<JsonStrings*> strings(Level level);
  JsonStrings& names(Level level);
  /// A name that calls in the model's form cannot have.
  Status leave_out_name(const std::string& name, const std::string& path);
  bool is_raw(Level level) const {
    return level == Level::kArgument && layout_->arguments()->raw_strings;
  }
  /// The values of a schema as a program of its own; none if it has no values.
  Result<std::optional<Program>> program_of(const Json& schema, const StringNotation& notation,
                                            const std::string& path);
  /// Whether a schema describes a value, whatever the order of its names and the form of its
  /// numbers.
  Result<bool> holds(const Json& schema, const Json& value, const std::string& path, int depth = 0);
  Result<bool> flat_holds(const Json& flat, const Json& value, const std::string& path, int depth);
  Result<bool> holds_items(const Json& schema, const Json& value, const std::string& path,
                           int depth);
  Result<bool> holds_members(const Json& schema, const Json& value, const std::string& path,
                             int depth);
  Result<Grammar::Node> of_type(const std::string& type, const Json& schema,
                                const std::string& path, Level level);
  /// Those of some scalars that the schema's "not" leaves.
  Grammar::Node scalars(const std::vector<Json>& values, const Json& schema, Level level);
  Result<Grammar::Node> number(const Json& schema, bool integer, const std::string& path);
  /// The multiples of a step, without exponent.
  Result<Grammar::Node> multiples(Multiple step, const std::optional<Bound>& min,
                                  const std::optional<Bound>& max, bool integer,
                                  const std::string& path);
  Result<Grammar::Node> string(const Json& schema, const std::string& path, Level level);
  /// What strings must be, or must not.
  struct StringPart {
    std::string_view text;
    enum { kPattern, kFormat, kValue } kind;  ///< the text is a regular expression, or the string
    bool excluded = false;
  };
  /// Bounds of a string's length without those that its parts keep by themselves.
  static Count open_bounds(const std::vector<StringPart>& parts, Count length);
  /// Strings of all parts in one notation.
  Result<Grammar::Node> string_in(JsonStrings* strings, bool raw,
                                  const std::vector<StringPart>& parts, const Count& length,
                                  const std::string& path);
  /// What a schema says of strings; patterns that are not supported are left out, if that is
  /// allowed.
  Result<std::vector<StringPart>> string_parts(const Json& schema, const std::string& path);
  /// The texts within quotes that are what all parts say; null if there is none.
  Result<CountedText::Shared> lengths_of(const std::vector<StringPart>& parts, bool raw,
                                         const StringNotation& notation);
  /// Raw strings that cannot be told from what is behind them.
  Status exclude_ends(std::vector<AutomatonPart>* parts);
  Result<Grammar::Node> array(const Json& schema, const std::string& path);
  Result<Grammar::Node> distinct_items(const Json& schema, uint64_t min, uint64_t max,
                                       const std::string& path);
  Result<Grammar::Node> object(const Json& schema, const std::string& path, Level level);
  std::string names_written(const std::string& name, Level level);
  Grammar::Node name_node(const std::string& name, Level level);
  /// What the schema's propertyNames allow, in quotes; none if it has none.
  Result<std::optional<Program>> names_of(const Json& schema, const std::string& path, Level level);
  /// A schema's patternProperties: names in quotes, and the schema of their values.
  struct PatternProperty {
    Program names;
    Json value;
  };
  Result<std::vector<PatternProperty>> pattern_properties(const Json& schema,
                                                          const std::string& path, Level level);
  /// The members of an object that are not among `listed`.
  Result<std::vector<JsonMember>> other_members(const std::vector<std::string>& listed,
                                                const std::optional<Program>& allowed,
                                                const std::vector<PatternProperty>& patterns,
                                                const Json& additional, const std::string& path,
                                                Level level);

  const Json& document_;
  SchemaMerger merger_;
  Grammar* grammar_;
  JsonLayout* layout_;
  SchemaReading* reading_;
  int nesting_;
  std::map<std::string, Grammar::Node> rules_;          ///< by the schema's text
  std::map<std::string, CountedText::Shared> lengths_;  ///< by their parts
  /// By the text of a schema of strings or numbers; null if it has no values.
  std::map<std::string, std::unique_ptr<Recognizer>> checked_;
  std::optional<Grammar::Node> any_argument_, any_raw_;
  std::deque<Pending> pending_;
};

}  // namespace thimble
