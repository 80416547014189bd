#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/code_points.h"
#include "constraint/grammar.h"
#include "core/status.h"

namespace thimble {

/// How strings are written.
struct StringNotation {
  std::string quote = "\"";  ///< around them; perhaps a token's mark, or empty
  bool escapes = true;       ///< as JSON has them; otherwise characters are as they are
  CodePoints points = CodePoints::all();  ///< that they may have without escapes
  /// Those with escapes may have their quote without one, where it does not look like the end:
  /// `'it's'` is read as a model means it.
  bool inner_quotes = false;

  std::string write(std::string_view text) const;
};

/// JSON strings in a grammar, or those of Python that are alike. Characters are written as they
/// are; only quotes, backslashes and control characters (U+007F is one) are escaped, by a letter
/// or, control characters, by \u.
class JsonStrings {
 public:
  explicit JsonStrings(Grammar* grammar, StringNotation notation = {})
      : grammar_(grammar), notation_(std::move(notation)) {}

  const StringNotation& notation() const { return notation_; }

  /// Any string, with its quotes.
  Grammar::Node any();
  /// Strings of `min` to `max` characters.
  Grammar::Node of_length(uint64_t min, uint64_t max);
  /// Strings in which a regular expression matches somewhere; or, if it is `whole`, that it matches
  /// as a whole.
  Result<Grammar::Node> matching(std::string_view regex, bool whole);
  /// The same without the quotes.
  Result<Grammar::Node> content(std::string_view regex, bool whole);
  /// What any string has between its quotes.
  Grammar::Node any_content();
  Grammar::Node quoted(Grammar::Node content);
  /// Any name of a member, with its quotes.
  Grammar::Node any_name() { return *except(nameless()); }
  /// What is no name: the empty text, where nobody would see it.
  std::vector<std::string> nameless() const {
    return std::vector<std::string>(notation_.quote.empty() ? 1 : 0);
  }
  /// Any string but these.
  Result<Grammar::Node> except(std::vector<std::string> texts);

  /// A character of a set inside a string.
  Grammar::Node character(const CodePoints& points);
  /// With inner quotes, what cannot be the content: a reader would see its end too early.
  Grammar::Node ends_early();

 private:
  Grammar::Node escaped_or_plain(const CodePoints& points);
  Grammar::Node beyond_ascii();
  Grammar::Node end_of_any();
  Grammar::Node any_with_inner_quotes();
  Grammar::Node except_tail(const std::vector<std::string>& texts, size_t begin, size_t end,
                            size_t depth);

  Grammar* grammar_;
  StringNotation notation_;
  std::map<std::pair<uint64_t, uint64_t>, Grammar::Node> of_length_;
  std::optional<Grammar::Node> any_, beyond_ascii_, end_of_any_;
};

}  // namespace thimble
