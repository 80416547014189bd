#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/json.h"
#include "constraint/schema_reading.h"
#include "constraint/token_names.h"
#include "core/status.h"

namespace thimble {

/// The JSON texts that a JSON schema (draft 2020-12, and what drafts 4 to 7 wrote otherwise)
/// describes. Properties come in the schema's order, and an object that lists some has no others
/// unless the schema says so. Keywords that are not supported are refused, with their path, or left
/// out.
Result<Grammar::Node> parse_schema(std::string_view text, const TokenNames& tokens,
                                   Grammar* grammar, SchemaReading* reading);
/// The same of a schema that was parsed.
Result<Grammar::Node> schema_node(const Json& schema, const TokenNames& tokens, Grammar* grammar,
                                  SchemaReading* reading);

}  // namespace thimble
