#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/json.h"
#include "constraint/json_layout.h"
#include "constraint/schema_merge.h"
#include "core/status.h"

namespace thimble {

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

  /// The values of a schema, with all rules that they need.
  Result<Grammar::Node> compile(const Json& schema);

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
  Result<bool> accepts(const Json& schema, const Json& value, const std::string& path);
  Result<Grammar::Node> of_type(const std::string& type, const Json& schema,
                                const std::string& path);
  Result<Grammar::Node> number(const Json& schema, bool integer, const std::string& path);
  Result<Grammar::Node> string(const Json& schema, const std::string& path);
  Result<Grammar::Node> array(const Json& schema, const std::string& path);
  Result<Grammar::Node> object(const Json& schema, const std::string& path);

  const Json& document_;
  SchemaMerger merger_;
  Grammar* grammar_;
  JsonLayout* layout_;
  std::vector<std::string>* notes_;
  int nesting_;
  std::map<std::string, Grammar::Node> rules_;  ///< by the schema's text
  std::deque<Pending> pending_;
};

}  // namespace thimble
