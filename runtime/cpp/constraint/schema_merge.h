#pragma once

#include <string>

#include "constraint/json.h"
#include "constraint/schema_reading.h"
#include "core/status.h"

namespace thimble {

/// A number without exponent and without zeros behind its fraction; others as they are. Values with
/// the same text are the same to JSON schema, as 1 and 1.0 are.
std::string plain_text(const Json& value);
inline bool equal_texts(const Json& a, const Json& b) { return plain_text(a) == plain_text(b); }

/// Turns a schema into one without $ref and allOf: true, false, or an object whose keywords say
/// what all of its parts say together.
class SchemaMerger {
 public:
  /// Both must outlive it.
  SchemaMerger(const Json& document, SchemaReading* reading)
      : document_(document), reading_(reading) {}

  /// `path` is the schema's, for messages.
  Result<Json> flatten(const Json& schema, const std::string& path);

  /// What a $ref refers to.
  Result<const Json*> resolve(const std::string& reference, const std::string& path) const;

 private:
  Result<Json> flatten(const Json& schema, const std::string& path, int depth);
  Result<Json> merge(Json a, const Json& b, const std::string& path);
  Status merge_keyword(const std::string& key, const Json& ours, const Json& theirs,
                       const std::string& path, Json* merged);
  Result<Json> merge_properties(const Json& a, const Json& b) const;
  Result<Json> merge_first_items(const Json& a, const Json& b, const std::string& path) const;

  /// What is not of a schema: its "not" has an anyOf of simple ones, of which each says of a value
  /// that it is of an enum, a string that has a pattern, or an object that has a name.
  Result<Json> negation(const Json& schema, const std::string& path, int depth);

  const Json& document_;
  SchemaReading* reading_;
  int work_ = 0;
};

/// What both say: {"allOf": [a, b]}, with the parts of their own, each once. So schemas that refer
/// to each other come back to the same text.
Json both(const Json& a, const Json& b);

/// Whether a keyword says nothing about the values: title, description, default, ...
bool is_annotation(const std::string& key);

/// Fails unless the keyword is one that is supported or an annotation.
Status check_keyword(const std::string& key, const Json& value, const std::string& path);

/// The type of a value; of a whole number integer, however it is written.
std::string type_of(const Json& value);

/// The types of a schema's "type": one for each of null boolean integer number string array object;
/// all if it says nothing.
Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path);

/// The same of a schema to be written; but if it has no "type", those that its keywords are about:
/// a schema of `properties` means an object, though a number is valid too.
Result<std::vector<std::string>> meant_types(const Json& schema, const std::string& path);

}  // namespace thimble
