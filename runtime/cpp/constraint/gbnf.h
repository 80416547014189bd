#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/schema_reading.h"
#include "constraint/token_names.h"
#include "core/status.h"

namespace thimble {

/// The texts of the rule "root" of a grammar in GBNF, llama.cpp's notation. Beside that:
/// - <|name|> and <"any name"> are a token by its name, <[128010]> is one by its id.
/// - %json and a JSON schema are the JSON that the schema describes.
/// - %regex and a text in quotes are what this regular expression matches as a whole.
/// - %gbnf and a text in quotes are the texts of this grammar, which has rules of its own.
Result<Grammar::Node> parse_gbnf(std::string_view text, const TokenNames& tokens, Grammar* grammar,
                                 SchemaReading* reading);

}  // namespace thimble
