#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace thimble {

/// A JSON value. Keys keep their order; a number keeps its text, so that it stays exact.
struct Json {
  enum class Kind { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string text;               ///< a string's UTF-8, or a number as it was written
  std::vector<std::string> keys;  ///< an object's
  std::vector<Json> values;       ///< an array's items, or an object's values, as many as keys

  static Json string(std::string text) { return {Kind::kString, std::move(text), {}, {}}; }
  static Json boolean(bool value) { return {value ? Kind::kTrue : Kind::kFalse, {}, {}, {}}; }
  static Json array(std::vector<Json> items) { return {Kind::kArray, {}, {}, std::move(items)}; }
  static Json object() { return {Kind::kObject, {}, {}, {}}; }

  bool is(Kind other) const { return kind == other; }
  bool is_boolean() const { return is(Kind::kTrue) || is(Kind::kFalse); }
  /// The value of a key; null if there is none, or this is not an object.
  const Json* find(std::string_view key) const;
  /// Adds a key that the object does not have.
  void append(std::string_view key, Json value);
  /// Sets the value of an object's key, in its old place or at the end.
  void set(std::string_view key, Json value);
  void remove(std::string_view key);
};

/// Parses one value (RFC 8259). Refuses, with line and column: what the grammar does not have,
/// text that is not UTF-8, lone surrogates, repeated keys, and more than 128 levels.
Result<Json> parse_json(std::string_view text);
/// The same of a value within a text, which begins at `*at`; moves `*at` behind it. Lines and
/// columns are those of the whole text.
Result<Json> parse_json_within(std::string_view text, size_t* at);

/// The value without spaces. Only quotes, backslashes and control characters are escaped.
std::string to_text(const Json& value);

/// A string with its quotes.
std::string quoted_json(std::string_view text);

}  // namespace thimble
