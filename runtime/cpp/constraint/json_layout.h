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

/// How the arguments of a call are written where they are no JSON object: each with its name, and
/// texts around both.
struct ArgumentsForm {
  std::string before_name, before_value, behind_value, between;
  /// Strings stand as they are up to behind_value, which they do not have; else they are JSON's.
  bool raw_strings = false;
  /// Values may be Python's too: True, False, None, and strings in single quotes.
  bool python_values = false;
};

/// How many, at least and at most.
struct Count {
  uint64_t min = 0, max = Grammar::kUnlimited;
};

/// Where JSON in an answer may have white space; none by default. A schema sets it with the key
/// x-guidance, as for llguidance.
struct JsonSpacing {
  bool flexible = false;  ///< white space anywhere inside an object or array, as much as one likes
  std::string item_separator = ",";  ///< regular expressions
  std::string key_separator = ":";
  StringNotation strings, names;
  std::optional<ArgumentsForm> arguments;  ///< of the object that is the whole text
};

/// An object's member.
struct JsonMember {
  Grammar::Node name;
  Grammar::Node value;
  bool required;
};

/// What Python calls a boolean or null; empty for other values.
std::string python_word(const Json& value);

/// Letters, digits and - . _, of which names without quotes are made.
CodePoints name_letters();

/// JSON values in a grammar, in one layout.
class JsonLayout {
 public:
  /// Fails if a separator is not a regular expression that is supported.
  static Result<JsonLayout> create(Grammar* grammar, const JsonSpacing& spacing);

  JsonStrings& strings() { return strings_; }
  /// Names of members.
  JsonStrings& names() { return names_; }
  /// The same in Python's single quotes; null where there are none.
  JsonStrings* single_strings() { return has_python_values() ? &single_strings_ : nullptr; }
  JsonStrings* single_names() { return has_python_values() ? &single_names_ : nullptr; }
  /// How arguments are written; none: as JSON.
  const std::optional<ArgumentsForm>& arguments() const { return arguments_; }
  JsonStrings& argument_names() { return argument_names_; }
  /// Strings without quotes or escapes.
  JsonStrings& raw() { return raw_; }
  /// The texts that stand for a string, a number, a boolean or null.
  std::vector<std::string> scalar_texts(const Json& value) const;
  /// A name in a value, of an argument if it is arguments, that stands without quotes and whose end
  /// readers of the form would not find; none if there is no such name.
  std::optional<std::string> unreadable_name(const Json& value, bool is_arguments) const;
  bool can_read_name(const std::string& name, bool is_argument) const;
  /// The texts that stand for a member's name.
  std::vector<std::string> name_texts(const std::string& name) const;
  Grammar::Node any();
  Grammar::Node any_boolean();
  /// This value, in the order of its keys.
  Grammar::Node exactly(const Json& value);
  /// The members in their order, then `more` ones, if there are such; so many of all.
  Grammar::Node object(const std::vector<JsonMember>& members, const std::vector<JsonMember>& more,
                       const Count& count = {});
  /// The same as a call's arguments.
  Grammar::Node arguments(const std::vector<JsonMember>& members,
                          const std::vector<JsonMember>& more, const Count& count);
  /// From `min` to `max` of these items, at most 10, each at most once.
  Grammar::Node distinct(std::vector<Grammar::Node> items, uint64_t min, uint64_t max);
  /// `first` items, as far as they are present, then `more` ones; from `min` to `max` in all.
  Grammar::Node array(const std::vector<Grammar::Node>& first, Grammar::Node more, uint64_t min,
                      uint64_t max);

 private:
  JsonLayout(Grammar* grammar, const JsonSpacing& spacing);
  Grammar::Node pair(const JsonMember& member);
  Grammar::Node argument(const JsonMember& member);
  Grammar::Node enclosed(const char* open, Grammar::Node content, const char* close);
  bool has_python_values() const { return arguments_ && arguments_->python_values; }
  /// Templates whose strings have quotes of their own write null as Python does.
  bool has_python_words() const { return has_python_values() || !strings_.notation().escapes; }

  Grammar* grammar_;
  JsonStrings strings_, names_, single_strings_, single_names_, argument_names_, raw_;
  std::optional<ArgumentsForm> arguments_;
  Grammar::Node space_ = 0, comma_ = 0, colon_ = 0;  ///< separators with the space beside them
  std::optional<Grammar::Node> any_;
};

}  // namespace thimble
