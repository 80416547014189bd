#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/interruption.h"
#include "constraint/masks.h"
#include "constraint/recognizer.h"
#include "constraint/schema_reading.h"
#include "constraint/vocabulary.h"
#include "core/status.h"

namespace thimble {

/// What an answer must be.
struct ConstraintText {
  enum class Kind {
    kNone,
    kJsonSchema,  ///< JSON that a schema describes
    kRegex,       ///< a text that a regular expression matches as a whole
    kChoice,      ///< one of the strings of a JSON array
    kGrammar,     ///< a text of a GBNF grammar, llama.cpp's notation, with schemas in it
  };

  Kind kind = Kind::kNone;
  std::string text;
  bool relax = false;  ///< what is not supported of a schema is left out, and no error

  bool operator==(const ConstraintText& other) const {
    return kind == other.kind && text == other.text && relax == other.relax;
  }
};

/// Compiles a constraint's text, which may name `tokens`; adds what its reader should know.
Result<Program> compile_constraint(const ConstraintText& text, const TokenNames& tokens,
                                   SchemaReading* reading);

/// Whether a constraint's text reads, before there is a model whose tokens it may name.
Status check_constraint(const ConstraintText& text);

/// A compiled constraint for the tokens of a vocabulary, with all that is kept from one answer to
/// the next. One thread at a time may use it.
class Constraint {
 public:
  static Result<std::unique_ptr<Constraint>> compile(const ConstraintText& text,
                                                     std::shared_ptr<const Vocabulary> vocabulary,
                                                     const StillWanted& wanted = nullptr);

  /// Begins a new text: what is kept of earlier ones is forgotten if it is too much, so that their
  /// matchers end here.
  void begin();

  Recognizer& recognizer() { return recognizer_; }
  Masks& masks() { return masks_; }
  const TokenNames& names() const { return vocabulary_->names(); }
  /// Whether its texts are JSON as a whole.
  bool is_json() const { return is_json_; }
  /// Whether one of its texts may have `part` in it: false only where none has.
  bool may_have(std::string_view part) const;
  /// Where texts are other than schemas say, a sentence each.
  const std::vector<std::string>& notes() const { return reading_.notes; }
  /// What was left out of schemas, a sentence each.
  const std::vector<std::string>& left_out() const { return reading_.left_out; }

 private:
  Constraint(Program program, std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)),
        recognizer_(std::move(program)),
        masks_(recognizer_, *vocabulary_) {}

  std::shared_ptr<const Vocabulary> vocabulary_;
  Recognizer recognizer_;
  Masks masks_;
  SchemaReading reading_;
  bool is_json_ = false;
};

/// A text under a constraint, which grows piece by piece and can be taken back. A copy costs what
/// its list of states does.
class Matcher {
 public:
  explicit Matcher(Constraint& constraint)
      : constraint_(&constraint), states_{constraint.recognizer().start()} {}

  /// Adds bytes; false, and nothing added, if no text that matches begins so.
  bool accept(std::string_view bytes);
  /// The number of pieces that were added.
  size_t length() const { return states_.size() - 1; }
  /// Takes back every piece from `length` on.
  void truncate(size_t length) { states_.resize(length + 1); }

  /// The tokens that may come next.
  const TokenMask& mask() { return constraint_->masks().at(states_.back()); }
  /// Whether the text matches as it is.
  bool complete() const { return constraint_->recognizer().accepts(states_.back()); }
  /// Whether the text matches and nothing can follow.
  bool ended() const { return constraint_->recognizer().ends(states_.back()); }
  /// The bytes that must follow, whatever else does: at most `most`. Marks of tokens are whole.
  std::string forced(size_t most) const;

 private:
  Constraint* constraint_;
  std::vector<Recognizer::State> states_;
};

}  // namespace thimble
