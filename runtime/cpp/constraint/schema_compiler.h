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
#include "core/status.h"

namespace thimble {

/// The type of a value; of a whole number integer, however it is written.
std::string type_of(const Json& value);

/// A schema that SchemaMerger has made as one that it takes, with one pattern in each part.
Json with_single_patterns(Json schema);

/// A keyword's whole number; `otherwise` if the schema lacks it.
Result<uint64_t> count_of(const Json& schema, const char* key, uint64_t otherwise,
                          const std::string& path);

/// Compiles the schemas of one document to a grammar. References become rules, so that schemas may
/// be recursive.
class SchemaCompiler {
 public:
  /// The document and the layout must outlive it. `nesting`: of documents whose enumerations are
  /// checked by compilers of their own.
  SchemaCompiler(const Json& document, Grammar* grammar, JsonLayout* layout,
                 std::vector<std::string>* notes, int nesting = 0)
      : document_(document),
        merger_(document),
        grammar_(grammar),
        layout_(layout),
        notes_(notes),
        nesting_(nesting) {}

  /// The values of a schema, with all rules that they need. `path`: for messages.
  Result<Grammar::Node> compile(const Json& schema, const std::string& path = "#");

 private:
  struct Pending {
    Grammar::Rule rule;
    Json schema;
    std::string path;
  };

  Result<Grammar::Node> node(const Json& schema, const std::string& path);
  Result<Grammar::Node> flat_node(const Json& schema, const std::string& path);
  Result<Grammar::Node> choices(const Json& schema, const std::string& key,
                                const std::string& path);
  Result<Grammar::Node> enumeration(const Json& schema, const std::string& path);
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
                                const std::string& path);
  Result<Grammar::Node> number(const Json& schema, bool integer, const std::string& path);
  /// Whole numbers of a step.
  Result<Grammar::Node> multiples(uint64_t step, const std::optional<Bound>& min,
                                  const std::optional<Bound>& max, const std::string& path);
  Result<Grammar::Node> string(const Json& schema, const std::string& path);
  /// A regular expression, and whether it matches a string as a whole.
  using StringPart = std::pair<std::string_view, bool>;
  /// The texts within quotes that match all parts; null if there is none.
  Result<CountedText::Shared> lengths_of(const std::vector<StringPart>& parts,
                                         const std::string& path);
  Result<Grammar::Node> array(const Json& schema, const std::string& path);
  Result<Grammar::Node> distinct_items(const Json& schema, uint64_t min, uint64_t max,
                                       const std::string& path);
  Result<Grammar::Node> object(const Json& schema, const std::string& path);
  /// What the schema's propertyNames allow, in quotes; none if it has none.
  Result<std::optional<Program>> names_of(const Json& schema, const std::string& path);
  /// The names of properties that are not among `listed`, of those that are allowed.
  Result<Grammar::Node> other_names(const std::vector<std::string>& listed,
                                    const std::optional<Program>& allowed, const std::string& path);

  const Json& document_;
  SchemaMerger merger_;
  Grammar* grammar_;
  JsonLayout* layout_;
  std::vector<std::string>* notes_;
  int nesting_;
  std::map<std::string, Grammar::Node> rules_;          ///< by the schema's text
  std::map<std::string, CountedText::Shared> lengths_;  ///< by their parts
  /// By the text of a schema of strings or numbers; null if it has no values.
  std::map<std::string, std::unique_ptr<Recognizer>> checked_;
  std::deque<Pending> pending_;
};

}  // namespace thimble
