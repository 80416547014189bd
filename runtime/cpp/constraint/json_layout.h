#pragma once

#include <optional>
#include <string>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/json.h"
#include "constraint/json_strings.h"
#include "core/status.h"

namespace thimble {

/// The numbers that an answer may write. Two digits of an exponent keep them, but for those of
/// hundreds of digits, inside the range of a double, beyond which readers of JSON have no numbers.
inline constexpr const char* kJsonNumber =
    "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?";

/// Where JSON in an answer may have white space; none by default. A schema sets it with the key
/// x-guidance, as for llguidance.
struct JsonSpacing {
  bool flexible = false;  ///< white space anywhere inside an object or array, as much as one likes
  std::string item_separator = ",";  ///< regular expressions
  std::string key_separator = ":";
  StringNotation strings, names;
};

/// An object's member.
struct JsonMember {
  Grammar::Node name;
  Grammar::Node value;
  bool required;
};

/// JSON values in a grammar, in one layout.
class JsonLayout {
 public:
  /// Fails if a separator is not a regular expression that is supported.
  static Result<JsonLayout> create(Grammar* grammar, const JsonSpacing& spacing);

  JsonStrings& strings() { return strings_; }
  /// Names of members.
  JsonStrings& names() { return names_; }
  /// A text that stands for a string, a number, a boolean or null.
  std::string scalar(const Json& value) const;
  /// Any name but these.
  Result<Grammar::Node> other_names(std::vector<std::string> listed);
  Grammar::Node any();
  Grammar::Node any_boolean();
  /// This value, in the order of its keys.
  Grammar::Node exactly(const Json& value);
  /// The members in their order, then any number of `more` ones, if there is one.
  /// It may lack them all unless one is required, or it is `not_empty`.
  Grammar::Node object(const std::vector<JsonMember>& members,
                       const std::optional<JsonMember>& more, bool not_empty = false);
  /// From `min` to `max` of these items, at most 10, each at most once.
  Grammar::Node distinct(std::vector<Grammar::Node> items, uint64_t min, uint64_t max);
  /// `first` items, as far as they are present, then `more` ones; from `min` to `max` in all.
  Grammar::Node array(const std::vector<Grammar::Node>& first, Grammar::Node more, uint64_t min,
                      uint64_t max);

 private:
  JsonLayout(Grammar* grammar, const JsonSpacing& spacing)
      : grammar_(grammar), strings_(grammar, spacing.strings), names_(grammar, spacing.names) {}
  Grammar::Node pair(const JsonMember& member);
  Grammar::Node enclosed(const char* open, Grammar::Node content, const char* close);

  Grammar* grammar_;
  JsonStrings strings_, names_;
  Grammar::Node space_ = 0, comma_ = 0, colon_ = 0;  ///< separators with the space beside them
  std::optional<Grammar::Node> any_;
};

}  // namespace thimble
